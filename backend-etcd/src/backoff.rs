//! How long to wait before a server that failed is asked again.

use std::time::Duration;

use latchwork_core::Pauses;

const FIRST: Duration = Duration::from_millis(20);
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double, from 20 ms to 1 s unless that is too long for what is waited for, each shorter by up to a half: who
/// failed at one instant does not ask again at one.
#[derive(Debug)]
pub(crate) struct Backoff {
    pauses: Pauses,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self::up_to(LONGEST)
    }

    pub(crate) fn up_to(longest: Duration) -> Self {
        // The jitter comes on top.
        Self { pauses: Pauses::new(FIRST / 2, longest / 2), longest }
    }

    /// The server answered.
    pub(crate) fn reset(&mut self) {
        *self = Self::up_to(self.longest);
    }

    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.pauses.next()).await;
    }
}
