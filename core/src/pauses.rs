//! How long to wait before something that failed is tried again.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::clock::Clock;

/// Pauses that double up to the longest, each with up to as much again of jitter, and never end. Who failed at one instant, a
/// thousand clients of a server that went away, does not try again at one.
#[derive(Debug)]
pub struct Pauses {
    delays: ExponentialBackoff,
    longest: Duration,
}

impl Pauses {
    /// From `first` to `longest`, jitter apart: at most twice the longest.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(first)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .build();
        Self { delays, longest }
    }

    /// The next one's length.
    #[allow(clippy::should_implement_trait, reason = "it never ends: an iterator would answer an option")]
    pub fn next(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.longest)
    }

    /// Waits for the next one's length.
    ///
    /// # Cancel safety
    /// Cancel-safe: a pause that is dropped counts as over.
    pub async fn pause(&mut self, clock: &Clock) {
        let pause = self.next();
        clock.sleep_until(clock.now() + pause).await;
    }
}
