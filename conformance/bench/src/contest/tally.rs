//! What one contender has seen.

use std::time::Duration;

use super::room::Departure;
use crate::stats::Timings;

/// What one contender has seen while it was recorded.
pub(super) struct Tally {
    pub(super) grants: u64,
    /// Grants to the one that left last.
    pub(super) self_regrants: u64,
    pub(super) waits: Vec<Duration>,
    /// From the release of another to the own grant.
    pub(super) handoffs: Vec<Duration>,
}

impl Tally {
    pub(super) fn new() -> Self {
        Self { grants: 0, self_regrants: 0, waits: Vec::new(), handoffs: Vec::new() }
    }

    /// Answers whether another has handed it over.
    pub(super) fn granted(
        &mut self,
        contender: usize,
        waited: Duration,
        last: Option<Departure>,
        at: Duration,
    ) -> bool {
        self.grants += 1;
        self.waits.push(waited);
        match last {
            Some(last) if last.contender == contender => self.self_regrants += 1,
            Some(last) => {
                self.handoffs.push(at - last.at);
                return true;
            }
            None => {}
        }
        false
    }

    /// Those of all, of one kind.
    pub(super) fn timings(tallies: &[Tally], of: fn(&Tally) -> &[Duration]) -> Timings {
        Self::timed(tallies.iter().flat_map(of))
    }

    pub(super) fn timed<'a>(times: impl IntoIterator<Item = &'a Duration>) -> Timings {
        let mut timings = Timings::new();
        times.into_iter().for_each(|time| timings.record(*time));
        timings
    }

    /// The fewest and the most grants that one got.
    pub(super) fn extremes(tallies: &[Tally]) -> (u64, u64) {
        let grants = || tallies.iter().map(|tally| tally.grants);
        (grants().min().unwrap_or(0), grants().max().unwrap_or(0))
    }
}
