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
    /// To be kept by one task that lives as long as the runtime.
    pub(crate) fn resident(&self) -> DropGuard {
        self.0.clone().drop_guard()
    }

    fn is_gone(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Waits until the runtime has ended.
    pub(crate) async fn gone(&self) {
        self.0.cancelled().await;
    }

    /// Runs an operation; answers `RuntimeGone` at once when the runtime has ended, or ends
    /// meanwhile. It consumes tokio's cooperative budget, because an uncontended operation may be
    /// ready each time.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::task::coop::consume_budget().await;
        if self.is_gone() {
            return Err(gone());
        }
        self.last(operation).await
    }

    /// As [`serve`](Self::serve), for an operation that may succeed without the runtime and is
    /// tried in any case.
    pub(crate) async fn last<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            answer = operation => match answer {
                // The missing runtime explains every other error.
                Err(error) if self.is_gone() => Err(gone().because(error)),
                answer => answer,
            },
            () = self.gone() => Err(gone()),
        }
    }
}

fn gone() -> Error {
    Error::new(
        ErrorKind::RuntimeGone,
        "connect anew, on a runtime that lives as long as the coordinator; the lease frees what it held",
    )
}
