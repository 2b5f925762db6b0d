//! Whether the runtime that a coordinator was connected on still exists.
//!
//! Tasks of that runtime renew the lease, clean up and serve the connection. A coordinator that
//! outlives it (a `static` one, in tests with a runtime each) would fail without a reason, so one
//! of those tasks cancels a token when it is dropped.

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{Error, ErrorKind, Result};

/// Knows whether the coordinator's runtime has ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct HomeRuntime(CancellationToken);

impl HomeRuntime {
    /// Returns a guard for one task that lives as long as the runtime.
    pub(crate) fn resident(&self) -> DropGuard {
        self.0.clone().drop_guard()
    }

    /// Waits until the runtime has ended, and returns `RuntimeGone`.
    pub(crate) async fn gone(&self) -> Error {
        self.0.cancelled().await;
        gone()
    }

    /// Starts an operation: fails with `RuntimeGone` if the runtime has ended. It consumes tokio's cooperative
    /// budget, because an uncontended operation may be ready each time.
    pub(crate) async fn begins(&self) -> Result<()> {
        tokio::task::coop::consume_budget().await;
        if self.0.is_cancelled() { Err(gone()) } else { Ok(()) }
    }

    /// Replaces an error by `RuntimeGone` if the runtime has ended, because that explains it.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::RuntimeGone => error,
            _ if self.0.is_cancelled() => gone().because(error),
            _ => error,
        }
    }

    /// Runs an operation; fails with `RuntimeGone` at once if the runtime has ended or ends during it.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        self.begins().await?;
        self.last(operation).await
    }

    /// Runs an operation as [`serve`](Self::serve), but tries it also without the runtime.
    pub(crate) async fn last<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            answer = operation => answer.map_err(|error| self.explain(error)),
            error = self.gone() => Err(error),
        }
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::RuntimeGone,
        "connect again on a runtime that lives as long as the coordinator; the locks are free when the lease ends",
    )
}
