//! A part of a wait that may be missing.

use std::future::pending;

/// Waits for this future; for ever if there is none. For a branch of `tokio::select!`.
///
/// # Cancel safety
/// That of the future.
pub async fn or_pending<F: Future>(future: Option<F>) -> F::Output {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
