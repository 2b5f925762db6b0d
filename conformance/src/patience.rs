//! Waits in the tests of backends: only a wait that never ends meets their bound.

use std::time::Duration;

use crate::waits::within;

/// The bound of every wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits what must come.
///
/// # Panics
/// If it does not come within [`PATIENCE`].
pub async fn soon<F: Future>(what: F) -> F::Output {
    within(PATIENCE, "what the test waits for", what).await
}

/// Polls until a condition holds that no event reports. (The cases have a function of their own: their futures move
/// between threads, and the condition here may borrow what it changes.)
///
/// # Panics
/// If it does not hold within [`PATIENCE`].
pub async fn until(mut holds: impl AsyncFnMut() -> bool) {
    soon(async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}
