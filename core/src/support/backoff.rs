//! How long to wait before a retry.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::clock::Clock;

/// Delays that double up to a longest one, without end, each with up to as much again of jitter.
/// The jitter spreads the clients of a server that went away: they all failed at one instant.
#[derive(Debug)]
pub struct Backoff {
    delays: ExponentialBackoff,
    first: Duration,
    longest: Duration,
}

impl Backoff {
    /// From `first` to `longest`, before jitter: a delay is at most twice the longest.
    pub fn new(first: Duration, longest: Duration) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(first)
            .with_max_delay(longest)
            .without_max_times()
            .with_jitter()
            .build();
        Self { delays, first, longest }
    }

    /// The next delay.
    #[allow(clippy::should_implement_trait, reason = "it never ends: an iterator would answer an option")]
    pub fn next(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.longest)
    }

    /// Waits for the next delay.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped delay counts as over.
    pub async fn wait(&mut self, clock: &Clock) {
        let delay = self.next();
        clock.sleep_until(clock.now() + delay).await;
    }

    /// Starts again with the first delay, after a success.
    pub fn reset(&mut self) {
        *self = Self::new(self.first, self.longest);
    }
}
