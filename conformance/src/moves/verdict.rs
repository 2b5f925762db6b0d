use std::time::Duration;

use super::delay::Delay;
use super::heard::Heard;
use super::keys::{KEYS, limit};
use super::rule::{Broken, Rule};
use super::walk::Change;
use crate::child::SoakKind;
use crate::failover::{longest_wait, noise};
use crate::fenced::fenced;
use crate::hold_record::{HoldRecord, in_order_of_tokens, none_overlap};

/// On the clock of grants.
#[derive(Clone, Debug)]
pub(super) struct Happening {
    pub(super) what: String,
    pub(super) begun: u64,
    pub(super) over: u64,
    /// The longest time without a grant, from the start to the first grant after it.
    pub(super) allowed: Duration,
}

impl Happening {
    /// `dead` is the longest delay by a dead client.
    pub(super) fn of(change: &Change, dead: Duration) -> Self {
        Self { what: change.what.to_owned(), begun: change.begun, over: change.known, allowed: dead }
    }
}

pub(super) struct Verdict<'a> {
    pub(super) name: &'a str,
    pub(super) heard: &'a Heard,
    pub(super) changes: &'a [Change],
    pub(super) happenings: &'a [Happening],
    /// The outage of a server, for which an uncontended acquisition may wait.
    pub(super) away: Duration,
}

impl Verdict<'_> {
    pub(super) fn judge(&self) -> Result<(), String> {
        let broken: Vec<_> = self.broken().into_iter().map(|broken| broken.why).collect();
        if broken.is_empty() { Ok(()) } else { Err(format!("{}: {}", self.name, broken.join("\n"))) }
    }

    pub(super) fn broken(&self) -> Vec<Broken> {
        let name = self.name;
        self.print_changes();
        let delay = Delay::of(&self.heard.grants, self.changes);
        println!("{name}: {delay}; the machine may add {:.1?}", noise());
        let mut broken: Vec<_> = delay.judge(noise() + self.away).err().into_iter().collect();
        for (key, (of, kind)) in KEYS.into_iter().enumerate() {
            match self.judge_key(key, kind, delay.bound()) {
                Ok(seen) => println!("{name}, {of}: {seen}"),
                Err(Broken { rule, why }) => broken.push(rule.broken(format!("{of}: {why}"))),
            }
        }
        broken
    }

    fn print_changes(&self) {
        let name = self.name;
        for what in ["a step forward", "a step back", "an operator and another"] {
            let of_kind = || self.changes.iter().filter(|change| change.what == what);
            let wrote = of_kind().map(|change| Duration::from_nanos(change.written - change.begun));
            let told = of_kind().map(|change| Duration::from_nanos(change.known - change.written));
            if let (Some(wrote), Some(told)) = (spread(wrote), spread(told)) {
                println!(
                    "{name}: {} times {what}: complete after {wrote}, known to all members {told} later",
                    of_kind().count()
                );
            }
        }
        let Heard { grants, lost, died, failed, .. } = self.heard;
        println!(
            "{name}: {} holds are judged, {lost} that were lost and {died} that ended with their process",
            grants.len()
        );
        println!("{name}: {} requests failed; the first: {:?}", failed.len(), failed.first());
    }

    fn judge_key(&self, key: usize, kind: SoakKind, adds: Duration) -> Result<String, Broken> {
        let of_key = self.heard.grants.iter().filter(|grant| grant.held.key == key);
        let mut delays = Vec::new();
        let mut records: Vec<HoldRecord> = Vec::new();
        for grant in of_key {
            delays.push(Duration::from_nanos(grant.held.from - grant.asked));
            records.push(grant.held);
        }
        none_overlap(&records, limit(kind)).map_err(|why| Rule::Alone.broken(why))?;
        if !matches!(kind, SoakKind::Permits { .. }) {
            in_order_of_tokens(&records).map_err(|why| Rule::Order.broken(why))?;
            let fenced = fenced(&records).map_err(|why| Rule::Fence.broken(why))?;
            if fenced.refused > 0 || fenced.overlaps > 0 {
                let why = format!("{fenced:?}: tokens went back, or two held at once");
                return Err(Rule::Fence.broken(why));
            }
        }
        let mut grants: Vec<_> = records.iter().map(|record| record.from).collect();
        grants.sort_unstable();
        let elsewhere = self.longest_elsewhere(&grants);
        let (mut worst, mut nearest) = (Duration::ZERO, None::<(Duration, Duration, &Happening)>);
        for happening in self.happenings {
            let waited = longest_wait(&grants, happening.begun, happening.over)
                .ok_or_else(|| Rule::Again.broken(format!("no grant after {happening:?}")))?;
            let bound = elsewhere + adds + happening.allowed + noise();
            if waited > bound {
                let why = format!("{waited:?} without a grant at {happening:?}: {bound:?} is allowed");
                return Err(Rule::Bound.broken(why));
            }
            worst = worst.max(waited);
            if nearest.is_none_or(|(of_another, its, _)| bound - waited < its - of_another) {
                nearest = Some((waited, bound, happening));
            }
        }
        let Some((waited, bound, happening)) = nearest else {
            return Err(Rule::Happened.broken("nothing has happened"));
        };
        let took = spread(delays.into_iter()).expect("a grant came after each happening");
        Ok(format!(
            "{} grants, asked for {took} before; without a grant at most {worst:.1?} (elsewhere {elsewhere:.1?}), \
             nearest to its bound {waited:.1?} of {bound:.1?} ({})",
            grants.len(),
            happening.what
        ))
    }

    fn longest_elsewhere(&self, grants: &[u64]) -> Duration {
        let apart = |from: u64, to: u64| self.happenings.iter().all(|of| to < of.begun || of.over < from);
        let pairs = grants.windows(2).map(|pair| (pair[0], pair[1]));
        let waits = pairs.filter(|(from, to)| apart(*from, *to)).map(|(from, to)| to - from);
        Duration::from_nanos(waits.max().unwrap_or_default())
    }
}

/// From the last death, because processes may die while a step waits.
pub(super) fn judge_steps(
    changes: &[Change],
    happenings: &[Happening],
    bound: Duration,
) -> Result<Duration, Broken> {
    let took = |change: &Change| {
        let away = happenings.iter().map(|of| of.begun).filter(|begun| *begun < change.written).max();
        Duration::from_nanos(change.written - change.begun.max(away.unwrap_or_default()))
    };
    let longest = changes.iter().map(took).max().unwrap_or_default();
    if longest <= bound {
        return Ok(longest);
    }
    let why = format!("a step came {longest:?} after the last process that died: {bound:?} is allowed");
    Err(Rule::Step.broken(why))
}

fn spread(times: impl Iterator<Item = Duration>) -> Option<String> {
    let mut times: Vec<_> = times.collect();
    times.sort_unstable();
    let (median, worst) = (times.get(times.len() / 2)?, times.last()?);
    Some(format!("{median:.1?} (at most {worst:.1?})"))
}
