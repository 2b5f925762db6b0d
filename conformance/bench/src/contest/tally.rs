//! What one contender has seen.

use std::time::Duration;

use super::room::Departure;

/// What one contender has seen while it was recorded.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) grants: u64,
    /// Grants to the one that left last.
    pub(super) self_regrants: u64,
    pub(super) waits: Vec<Duration>,
    /// From the release of another to the own grant.
    pub(super) handoffs: Vec<Duration>,
}

impl Tally {
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

    /// The fewest and the most grants that one got.
    pub(super) fn extremes(tallies: &[Tally]) -> (u64, u64) {
        let grants = || tallies.iter().map(|tally| tally.grants);
        (grants().min().unwrap_or(0), grants().max().unwrap_or(0))
    }
}
