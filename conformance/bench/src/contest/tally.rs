use std::time::Duration;

use super::room::Departure;

#[derive(Default)]
pub(super) struct Tally {
    pub(super) grants: u64,
    pub(super) self_regrants: u64,
    pub(super) waits: Vec<Duration>,
    pub(super) handoffs: Vec<Duration>,
}

impl Tally {
    /// Returns whether another contender has handed the lock over.
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

    pub(super) fn extremes(tallies: &[Tally]) -> (u64, u64) {
        let grants = || tallies.iter().map(|tally| tally.grants);
        (grants().min().unwrap_or(0), grants().max().unwrap_or(0))
    }
}
