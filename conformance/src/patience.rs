//! Waits with a bound, for tests of backends. Only an endless wait reaches the bound.

use std::time::Duration;

use crate::waits::within;

/// The bound of each wait.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Awaits a future that must complete.
///
/// # Panics
/// If it does not complete within [`PATIENCE`].
pub async fn soon<F: Future>(what: F) -> F::Output {
    within(PATIENCE, "the awaited future", what).await
}

/// Polls until a condition holds that has no event. (The cases have another function, whose futures move between threads; the
/// condition here may borrow the data that it changes.)
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
