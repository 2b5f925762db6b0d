use std::time::{Duration, Instant};

use futures_util::future::try_join_all;

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::{PLAIN, Subject};
use crate::requests::{Counted, Counter};
use crate::stats::Timings;
use crate::target::Target;

/// Turns, so that other load of the machine affects all subjects.
const TURN: usize = 20;
/// Runs of each subject while requests are counted, in this number of parts.
const COUNTED: u64 = 200;
const PARTS: u64 = 5;
const ONE_TASK: &str = "1 task";

pub(super) struct ServerTerms<'a> {
    pub(super) server: &'a str,
    pub(super) measure: &'static str,
    pub(super) param: &'a str,
    pub(super) counted: Vec<(&'a Counter, String)>,
    pub(super) unit: &'static str,
}

impl<'a> ServerTerms<'a> {
    pub(super) fn of(target: &'a Target, [measure, asked, unit]: [&'static str; 3]) -> Self {
        let counted = vec![(target.counter(), asked.to_owned())];
        Self { server: target.name(), measure, param: ONE_TASK, counted, unit }
    }
}

pub(super) async fn measure(
    mut subjects: Vec<Subject>,
    plan: &Plan,
    terms: &ServerTerms<'_>,
) -> Result<Vec<Line>> {
    let lines = warm_and_measure(&mut subjects, plan, terms).await;
    let ended = try_join_all(subjects.iter_mut().map(|subject| subject.pair.end())).await;
    let lines = lines?;
    ended?;
    Ok(lines)
}

async fn warm_and_measure(
    subjects: &mut [Subject],
    plan: &Plan,
    terms: &ServerTerms<'_>,
) -> Result<Vec<Line>> {
    let line = |peer: &str, measure: &str, param: &str, unit: &str| {
        Line::new(terms.server, peer, measure, param, unit)
    };
    take_turns(subjects, plan.warm).await?;
    let mut asked = Vec::new();
    // Redis does not distinguish a plain command from one inside a script.
    for subject in subjects.iter_mut().filter(|subject| subject.peer != PLAIN) {
        for _ in 0..TURN {
            subject.pair.once().await?;
        }
        let mut looks = vec![look(terms).await?];
        for _ in 0..PARTS {
            for _ in 0..COUNTED / PARTS {
                subject.pair.once().await?;
            }
            looks.push(look(terms).await?);
        }
        for (counter, (_, param)) in terms.counted.iter().enumerate() {
            let line = line(subject.peer, "M4", param, terms.unit);
            asked.extend(of_the_middle_part(&line, looks.iter().map(|look| look[counter].as_ref())));
        }
    }
    let timed = take_turns(subjects, plan.time).await?;
    let timed =
        timed.iter().map(|(peer, timings)| line(peer, terms.measure, terms.param, "us").timed(timings));
    Ok(timed.chain(asked).collect())
}

/// The part with the median of requests: pauses and renewals add requests.
fn of_the_middle_part<'a>(
    line: &Line,
    looks: impl Iterator<Item = Option<&'a Counted>> + Clone,
) -> Option<Line> {
    let parts = looks.clone().zip(looks.skip(1));
    let mut parts: Vec<_> = parts
        .filter_map(|(before, after)| {
            Counted::per_acquisition(line.clone(), before.cloned(), after.cloned(), COUNTED / PARTS)
        })
        .collect();
    parts.sort_by(|one, other| one.value.partial_cmp(&other.value).expect("a number of requests"));
    let middle = parts.len() / 2;
    parts.into_iter().nth(middle).map(|part| Line { n: Some(COUNTED), ..part })
}

async fn look(terms: &ServerTerms<'_>) -> Result<Vec<Option<Counted>>> {
    try_join_all(terms.counted.iter().map(|(counter, _)| counter.read())).await
}

async fn take_turns(subjects: &mut [Subject], time: Duration) -> Result<Vec<(&'static str, Timings)>> {
    let mut timed: Vec<_> = subjects.iter().map(|subject| (subject.peer, Timings::new())).collect();
    let (started, in_all) = (Instant::now(), time * u32::try_from(subjects.len())?);
    while started.elapsed() < in_all || timed.iter().any(|(_, timings)| timings.count() == 0) {
        for (subject, (_, timings)) in subjects.iter_mut().zip(&mut timed) {
            for _ in 0..TURN {
                let started = Instant::now();
                subject.pair.once().await?;
                timings.record(started.elapsed());
            }
        }
    }
    Ok(timed)
}
