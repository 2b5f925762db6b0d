use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::clock::Clock;
use crate::contracts::NodeId;

/// The first and the longest pause between retries. Jitter at most doubles them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The pause before the first retry.
    pub first: Duration,
    /// The longest pause. The pauses double up to it.
    pub longest: Duration,
}

impl Pauses {
    /// Retries within a request or a close, which has time for several.
    pub const IN_REQUEST: Self = Self::of_millis(5, 100);
    /// Dials of a connection that renews leases: a third of a TTL may remain.
    pub const RECONNECT: Self = Self::of_millis(5, 250);
    /// Requests during an outage. Half a second is short compared with a lease.
    pub const OUTAGE: Self = Self::of_millis(10, 500);
    /// Requests for the master or the map of slots during a failover, which takes seconds.
    pub const FAILOVER: Self = Self::of_millis(100, 1_000);
    /// Clean-up that no caller waits for.
    pub const BACKGROUND: Self = Self::of_millis(1_000, 30_000);

    /// Returns the pauses before a watch or a registration is made again: at most a quarter of the TTL,
    /// without jitter.
    pub fn of_watch(ttl: Duration) -> Self {
        let first = Duration::from_millis(50);
        Self { first, longest: first.max(ttl / 4) }
    }

    /// Returns pauses of at most `longest`.
    #[must_use]
    pub fn up_to(self, longest: Duration) -> Self {
        Self { longest: longest.min(self.longest).max(self.first), ..self }
    }

    const fn of_millis(first: u64, longest: u64) -> Self {
        Self { first: Duration::from_millis(first), longest: Duration::from_millis(longest) }
    }
}

/// Returns a random part of a duration, which spreads clients that wait for one event.
pub(crate) fn random_part(of: Duration) -> Duration {
    let [.., a, b, c, d] = NodeId::random().as_u64().to_be_bytes();
    of.mul_f64(f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX))
}

/// An endless sequence of delays, which double up to a longest one. Jitter spreads the clients of a failed
/// server.
#[derive(Debug)]
pub struct Backoff {
    delays: ExponentialBackoff,
    pauses: Pauses,
}

impl Backoff {
    /// Creates a sequence with these pauses.
    pub fn new(pauses: Pauses) -> Self {
        let delays = ExponentialBuilder::default()
            .with_min_delay(pauses.first)
            .with_max_delay(pauses.longest)
            .without_max_times()
            .with_jitter()
            .build();
        Self { delays, pauses }
    }

    /// Returns the next delay.
    #[allow(clippy::should_implement_trait, reason = "it never ends: an iterator would answer an option")]
    pub fn next(&mut self) -> Duration {
        self.delays.next().unwrap_or(self.pauses.longest)
    }

    /// Waits for the next delay.
    pub async fn wait(&mut self, clock: &Clock) {
        let delay = self.next();
        clock.sleep_until(clock.now() + delay).await;
    }

    /// Starts again with the first delay.
    pub fn reset(&mut self) {
        *self = Self::new(self.pauses);
    }
}
