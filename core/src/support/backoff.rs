use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::clock::Clock;
use crate::contracts::NodeId;

/// The first and the longest pause between retries. Jitter at most doubles a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pauses {
    /// The pause before the first retry.
    pub first: Duration,
    /// The pauses double up to this one.
    pub longest: Duration,
}

impl Pauses {
    /// Retries within the time of one request or of a close: several fit in.
    pub const IN_REQUEST: Self = Self::of_millis(5, 100);
    /// Dials of a connection that renews leases: a third of a TTL may be left.
    pub const RECONNECT: Self = Self::of_millis(5, 250);
    /// Requests during an outage. Most outages are short, and half a second is short compared with a lease.
    pub const OUTAGE: Self = Self::of_millis(10, 500);
    /// Requests for the master or the map of slots during a failover, which takes seconds.
    pub const FAILOVER: Self = Self::of_millis(100, 1_000);
    /// Cleanup that no caller waits for, such as one that the server refuses until an operator acts.
    pub const BACKGROUND: Self = Self::of_millis(1_000, 30_000);

    /// Returns the pauses before a watch or a registration is made again: at most a quarter of the TTL,
    /// without jitter.
    pub fn of_watch(ttl: Duration) -> Self {
        let first = Duration::from_millis(50);
        Self { first, longest: first.max(ttl / 4) }
    }

    /// Returns the same pauses, with a longest pause of at most `longest`.
    #[must_use]
    pub fn up_to(self, longest: Duration) -> Self {
        Self { longest: longest.min(self.longest).max(self.first), ..self }
    }

    const fn of_millis(first: u64, longest: u64) -> Self {
        Self { first: Duration::from_millis(first), longest: Duration::from_millis(longest) }
    }
}

/// Returns a random part of a duration, so that clients that wait for one event come one after another.
pub(crate) fn random_part(of: Duration) -> Duration {
    let [.., a, b, c, d] = NodeId::random().as_u64().to_be_bytes();
    of.mul_f64(f64::from(u32::from_be_bytes([a, b, c, d])) / f64::from(u32::MAX))
}

/// An endless sequence of delays that double up to a longest delay. Jitter spreads the clients of a failed
/// server, which all fail at the same time.
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

    /// Starts again with the first delay, after a success.
    pub fn reset(&mut self) {
        *self = Self::new(self.pauses);
    }
}
