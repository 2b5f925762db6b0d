//! A restarted or another server may have forgotten nodes.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use latchwork_core::{Moment, seen};
use parking_lot::Mutex;

use crate::config::NAME;

#[derive(Debug)]
pub(super) struct Incarnation {
    run_id: Mutex<Option<String>>,
    said: AtomicBool,
    since: AtomicU64,
}

impl Incarnation {
    pub(super) fn new() -> Self {
        let since = AtomicU64::new(Moment::PAST.as_nanos());
        Self { run_id: Mutex::new(None), said: AtomicBool::new(false), since }
    }

    pub(super) fn since(&self) -> Moment {
        Moment::from_nanos(self.since.load(Ordering::Acquire))
    }

    /// Without a run id, the server counts as the same.
    pub(super) fn is(&self, run_id: Option<&str>) -> bool {
        match (self.run_id.lock().as_deref(), run_id) {
            (Some(present), Some(run_id)) => present == run_id,
            _ => true,
        }
    }

    pub(super) fn run_id(&self) -> Option<String> {
        let known = self.run_id.lock();
        known.clone().filter(|_| self.said.load(Ordering::Acquire))
    }

    /// Called before the first request on the connection.
    pub(super) fn met(&self, host: &str, run_id: Option<String>, now: Moment) {
        let mut known = self.run_id.lock();
        self.said.store(run_id.is_some(), Ordering::Release);
        if run_id.is_some() && *known != run_id {
            if known.is_some() {
                seen::replaced(NAME, host);
                self.since.store(now.as_nanos(), Ordering::Release);
            }
            *known = run_id;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_say_which_it_is_is_not_taken_for_the_one_before() {
        let incarnation = Incarnation::new();
        assert_eq!(incarnation.run_id(), None);
        for id in [Some("one"), None, Some("one"), Some("two")].map(|id| id.map(str::to_owned)) {
            incarnation.met("a", id.clone(), Moment::from_nanos(7));
            assert_eq!(incarnation.run_id(), id);
        }
        assert_eq!(incarnation.since(), Moment::from_nanos(7));
    }
}
