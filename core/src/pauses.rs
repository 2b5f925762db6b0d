//! How long to wait before something that failed is tried again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::clock::Clock;

/// Pauses that double up to the longest, each with up to as much again of jitter, and never end.
#[derive(Debug)]
pub(crate) struct Pauses {
    delays: ExponentialBackoff,
    longest: Duration,
}

impl Pauses {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(first)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .build();
        Self { delays, longest }
    }

    /// The next one's length.
    pub(crate) fn next(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.longest)
    }

    pub(crate) async fn pause(&mut self, clock: &Clock) {
        let pause = self.next();
        clock.sleep_until(clock.now() + pause).await;
    }
}
