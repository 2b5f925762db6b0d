use std::fmt;
use std::time::Duration;

use latchwork_core::backend::decide::moving::{MovePhase, Sides};

use super::grant::Grant;
use super::keys::OWN;
use super::rule::{Broken, Rule};
use super::walk::Change;

/// Uncontended acquisitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Delay {
    steady: usize,
    median: Duration,
    one: Duration,
    /// On both sides: a request to each, and a read of the stage.
    both: Duration,
    changing: usize,
    at_change: Duration,
}

impl Delay {
    pub(super) fn of(grants: &[Grant], changes: &[Change]) -> Self {
        let mut delay = Self::default();
        let mut steady = Vec::new();
        for grant in grants.iter().filter(|grant| grant.held.key == OWN) {
            let took = Duration::from_nanos(grant.held.from - grant.asked);
            let overlaps = |change: &&Change| grant.asked <= change.known && change.begun <= grant.held.from;
            if changes.iter().any(|change| overlaps(&change)) {
                delay.changing += 1;
                delay.at_change = delay.at_change.max(took);
                continue;
            }
            let before = changes.iter().rev().find(|change| change.known < grant.asked);
            let phase = before.map_or(MovePhase::Old, |change| change.phase);
            let longest = if phase.needs() == Sides::BOTH { &mut delay.both } else { &mut delay.one };
            *longest = took.max(*longest);
            steady.push(took);
        }
        steady.sort_unstable();
        delay.steady = steady.len();
        delay.median = steady.get(steady.len() / 2).copied().unwrap_or_default();
        delay
    }

    /// A change adds requests to both sides and a read of the stage.
    pub(super) fn bound(&self) -> Duration {
        self.one.max(self.both) + self.both
    }

    pub(super) fn judge(&self, allowed: Duration) -> Result<(), Broken> {
        let (bound, took) = (self.bound() + allowed, self.at_change);
        if took <= bound {
            return Ok(());
        }
        let why = format!("an acquisition took {took:?} at a change: {bound:?} is allowed");
        Err(Rule::Delay.broken(why))
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { steady, median, one, both, changing, at_change } = self;
        write!(
            f,
            "{steady} acquisitions that wait for nobody: median {median:.1?}, at most {one:.1?} on one side, \
             {both:.1?} on both; {changing} at a change of phase: at most {at_change:.1?} of {:.1?}",
            self.bound()
        )
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::Claim;

    use super::*;
    use crate::hold_record::HoldRecord;

    fn grant(asked: u64, from: u64) -> Grant {
        let held = HoldRecord { key: OWN, claim: Claim::Exclusive, token: None, from, to: from + 1 };
        Grant { asked, held }
    }

    const CHANGE: Change =
        Change { what: "a step forward", phase: MovePhase::BothByOld, begun: 100, written: 110, known: 120 };

    #[test]
    fn delay_at_a_change_is_separated_and_judged() {
        let grants = [grant(10, 15), grant(90, 130), grant(130, 140), grant(140, 152)];
        let delay = Delay::of(&grants, &[CHANGE]);
        let nanos = Duration::from_nanos;
        assert_eq!((delay.one, delay.both, delay.at_change), (nanos(5), nanos(12), nanos(40)));
        assert_eq!(delay.bound(), nanos(24));
        assert!(delay.judge(nanos(15)).is_err() && delay.judge(nanos(16)).is_ok());
    }
}
