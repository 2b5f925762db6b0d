//! The times for which a lock is free while a contender waits for it.

use std::time::Duration;

#[derive(Clone, Debug, Default)]
pub(super) struct Free {
    latest: Duration,
    waiting: u64,
    inside: u64,
    since: Option<Duration>,
    spells: Vec<Duration>,
}

impl Free {
    pub(super) fn begin(&mut self, now: Duration) {
        self.reach(now);
        self.spells.clear();
        self.since = self.since.map(|_| now);
    }

    pub(super) fn waits(&mut self, now: Duration) {
        self.waiting += 1;
        self.look(now);
    }

    pub(super) fn waited(&mut self, holds: bool, now: Duration) {
        self.waiting -= 1;
        self.inside += u64::from(holds);
        self.look(now);
    }

    pub(super) fn releases(&mut self, now: Duration) {
        self.inside -= 1;
        self.look(now);
    }

    /// An older instant would count a time twice.
    fn reach(&mut self, now: Duration) {
        debug_assert!(self.latest <= now, "{now:?} comes after {:?}", self.latest);
        self.latest = now;
    }

    fn look(&mut self, now: Duration) {
        self.reach(now);
        let free = self.inside == 0 && self.waiting > 0;
        match self.since {
            None if free => self.since = Some(now),
            Some(since) if !free => {
                self.spells.push(now - since);
                self.since = None;
            }
            _ => {}
        }
    }

    pub(super) fn spells(&self, now: Duration) -> Vec<Duration> {
        self.spells.iter().copied().chain(self.since.map(|since| now - since)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn free_time_counts_while_contenders_wait_without_a_holder() {
        let mut free = Free::default();
        free.waits(ms(1));
        free.begin(ms(3));
        free.waited(true, ms(5));
        free.waits(ms(6));
        free.releases(ms(8));
        free.waited(false, ms(12));
        free.waits(ms(20));
        assert_eq!(free.spells(ms(21)), [ms(2), ms(4), ms(1)]);
        free.waited(true, ms(23));
        assert_eq!(free.spells(ms(30)), [ms(2), ms(4), ms(3)]);
    }
    #[test]
    #[should_panic(expected = "1ms comes after 2ms")]
    fn an_older_instant_is_refused() {
        let mut free = Free::default();
        free.waits(ms(2));
        free.waited(true, ms(1));
    }
}
