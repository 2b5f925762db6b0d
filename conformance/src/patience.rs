//! Waits of backends' tests.

use std::time::Duration;

use crate::waits::within;

/// The bound of each wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a future within [`PATIENCE`].
pub async fn soon<F: Future>(what: F) -> F::Output {
    within(PATIENCE, "the awaited future", what).await
}

/// Polls a condition without an event, within [`PATIENCE`]. The condition may borrow the data that it changes.
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    soon(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
