//! How long to wait before a server that failed is asked again.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);

/// Pauses that double from 20 ms to 1 s.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) fn new() -> Self {
        Self(FIRST)
    }

    /// The server answered.
    pub(crate) fn reset(&mut self) {
        self.0 = FIRST;
    }

    pub(crate) async fn pause(&mut self) {
        let pause = self.0;
        self.0 = (pause * 2).min(LONGEST);
        tokio::time::sleep(pause).await;
    }
}
