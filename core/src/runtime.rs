//! Tasks of a coordinator's runtime renew the lease, clean up and serve the connection. A coordinator that
//! outlives it (a `static` one, or in tests) would fail without a reason, so one of those tasks cancels a
//! token when it is dropped.

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{Error, ErrorKind, Result};

#[derive(Clone, Debug, Default)]
pub(crate) struct HomeRuntime(CancellationToken);

impl HomeRuntime {
    /// A task that lives as long as the runtime keeps this guard.
    pub(crate) fn resident(&self) -> DropGuard {
        self.0.clone().drop_guard()
    }

    pub(crate) async fn gone(&self) -> Error {
        self.0.cancelled().await;
        gone()
    }

    /// Uses tokio's cooperative budget, because an uncontended operation may be ready each time.
    pub(crate) async fn begins(&self) -> Result<()> {
        tokio::task::coop::consume_budget().await;
        if self.0.is_cancelled() { Err(gone()) } else { Ok(()) }
    }

    /// Replaces any other error once the runtime has ended.
    pub(crate) fn explain(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::RuntimeGone => error,
            _ if self.0.is_cancelled() => gone().because(error),
            _ => error,
        }
    }

    /// Fails at once if the runtime has ended or ends during the operation.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        self.begins().await?;
        self.last(operation).await
    }

    /// Tries the operation also without the runtime.
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
