//! M1: one task, one key, beside the same requests sent raw; and what the server was asked for
//! (M4).

use std::time::{Duration, Instant};

use async_trait::async_trait;
use futures_util::future::try_join_all;
use latchwork_core::recipes::{Member, MultiLock};

use crate::Result;
use crate::line::Line;
use crate::plan::Plan;
use crate::raw::{self, PLAIN, Pair, Subject};
use crate::recipe::{Ask, Lock, Recipe, release};
use crate::requests::Counted;
use crate::stats::Timings;
use crate::target::Target;

/// Subjects take turns after so many pairs, so that what else the machine does falls on all of
/// them.
const TURN: usize = 20;
/// How many pairs the server's requests are counted over.
const COUNTED: u64 = 200;

/// The name of a MultiLock of three mutexes among the peers.
pub(super) const MULTI: &str = "latchwork-multi-3";

struct Ours(Lock);

struct AsOne(MultiLock);

#[async_trait]
impl Pair for AsOne {
    async fn once(&mut self) -> Result<()> {
        let hold = self.0.acquire().await?;
        release(&hold).await
    }
}

#[async_trait]
impl Pair for Ours {
    async fn once(&mut self) -> Result<()> {
        let hold = self.0.acquire(Ask::Alone).await?;
        release(&*hold).await
    }
}

pub(super) async fn measure(target: &Target, recipe: Recipe, plan: &Plan) -> Result<Vec<Line>> {
    let client = target.open().await?;
    let ours = Subject { peer: recipe.peer(), pair: Box::new(Ours(recipe.lock(&client, "m1")?)) };
    let mut subjects = vec![ours];
    if recipe == Recipe::Mutex {
        let three = ["m1-a", "m1-b", "m1-c"].map(|key| client.mutex(key).map(Member::from));
        let three = MultiLock::new(three.into_iter().collect::<latchwork_core::Result<Vec<_>>>()?)?;
        subjects.push(Subject { peer: MULTI, pair: Box::new(AsOne(three)) });
    }
    // What is sent raw is a mutex' requests.
    if plan.raw && recipe == Recipe::Mutex {
        subjects.extend(raw::subjects(target).await?);
    }
    let lines = measure_all(target, &mut subjects, plan).await;
    let ended = try_join_all(subjects.iter_mut().map(|subject| subject.pair.end())).await;
    let lines = lines?;
    ended?;
    drop(subjects);
    client.close().await?;
    Ok(lines)
}

async fn measure_all(target: &Target, subjects: &mut [Subject], plan: &Plan) -> Result<Vec<Line>> {
    let line = |peer: &str, measure: &str, param: &str, unit: &str| {
        Line::new(target.name(), peer, measure, param, unit)
    };
    take_turns(subjects, plan.warm).await?;
    let mut asked = Vec::new();
    // The counters of Redis do not distinguish a plain command that was sent from one inside a
    // script.
    for subject in subjects.iter_mut().filter(|subject| subject.peer != PLAIN) {
        // It comes back at once, as it does within a turn.
        for _ in 0..TURN {
            subject.pair.once().await?;
        }
        let before = target.counter().read().await?;
        for _ in 0..COUNTED {
            subject.pair.once().await?;
        }
        let after = target.counter().read().await?;
        let line = line(subject.peer, "M4", "uncontended", "server requests/acquisition");
        asked.extend(Counted::per_acquisition(line, before, after, COUNTED));
    }
    let timed = take_turns(subjects, plan.time).await?;
    let timed = timed.iter().map(|(peer, timings)| line(peer, "M1", "1 task", "us").timed(timings));
    Ok(timed.chain(asked).collect())
}

/// Times each for about `time`, in turns.
async fn take_turns(subjects: &mut [Subject], time: Duration) -> Result<Vec<(&'static str, Timings)>> {
    let mut timed: Vec<_> = subjects.iter().map(|subject| (subject.peer, Timings::new())).collect();
    let (started, in_all) = (Instant::now(), time * u32::try_from(subjects.len())?);
    while started.elapsed() < in_all {
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
