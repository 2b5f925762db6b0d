//! A server that answers other requests is only slow. A connection without any answer must be replaced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork_core::Moment;

#[derive(Debug)]
pub(super) struct Silence {
    pub(super) patience: Duration,
    // The send of the first request that timed out since the last answer.
    since: AtomicU64,
    answered: AtomicU64,
}

impl Silence {
    pub(super) fn new(patience: Duration, now: Moment) -> Self {
        let since = AtomicU64::new(Moment::NEVER.as_nanos());
        Self { patience, since, answered: AtomicU64::new(now.as_nanos()) }
    }

    pub(super) fn end(&self, now: Moment) {
        self.answered.store(now.as_nanos(), Ordering::Relaxed);
        self.since.store(Moment::NEVER.as_nanos(), Ordering::Relaxed);
    }

    pub(super) fn is_too_long(&self, sent: Moment, within: Duration, now: Moment) -> bool {
        let before = self.since.fetch_min(sent.as_nanos(), Ordering::Relaxed);
        let since = Moment::from_nanos(before)
            .min(sent)
            .max(Moment::from_nanos(self.answered.load(Ordering::Relaxed)));
        now.since(since) >= self.patience.min(within)
    }
}
