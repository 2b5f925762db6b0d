//! How long to wait before a server that failed is asked again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
pub(crate) const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double, from 20 ms to 1 s unless that is too long for what is waited for.
#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self::up_to(LONGEST)
    }

    pub(crate) fn up_to(longest: Duration) -> Self {
        Self { next: FIRST, longest }
    }

    /// The server answered.
    pub(crate) fn reset(&mut self) {
        self.next = FIRST;
    }

    pub(crate) async fn pause(&mut self) {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        tokio::time::sleep(pause).await;
    }
}
