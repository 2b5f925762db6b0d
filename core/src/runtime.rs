//! Whether the runtime that a coordinator was connected on is there still.
//!
//! What renews its lease, gives back and serves its connection are tasks of that runtime, and end with it. Of a coordinator that outlives it
//! (a `static` one in tests that have each a runtime of their own) nothing works any more, and nothing would say so: so one of the
//! tasks has a token that tells when it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

use crate::error::{Error, ErrorKind, Result};

/// Tells whether the runtime is gone.
#[derive(Clone, Debug, Default)]
pub(crate) struct HomeRuntime(Arc<State>);

#[derive(Debug, Default)]
struct State {
    gone: AtomicBool,
    told: Notify,
}

/// Had by a task that lives as long as the runtime.
#[derive(Debug)]
pub(crate) struct Resident(Arc<State>);

impl Drop for Resident {
    fn drop(&mut self) {
        self.0.gone.store(true, Ordering::Release);
        self.0.told.notify_waiters();
    }
}

impl HomeRuntime {
    /// For the one task that is to tell.
    pub(crate) fn resident(&self) -> Resident {
        Resident(Arc::clone(&self.0))
    }

    fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Acquire)
    }

    /// Waits until it is gone.
    pub(crate) async fn gone(&self) {
        let told = self.0.told.notified();
        tokio::pin!(told);
        told.as_mut().enable();
        if !self.is_gone() {
            told.await;
        }
    }

    /// An operation: answered as long as the runtime is there, and `RuntimeGone` at once when it is not, or ends meanwhile. It takes part
    /// in tokio's cooperative budget, since where nobody contends it may be ready each time.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::task::coop::consume_budget().await;
        if self.is_gone() {
            return Err(gone());
        }
        self.last(operation).await
    }

    /// The same for one that may be done without the runtime, and is asked for in any case.
    pub(crate) async fn last<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            answer = operation => match answer {
                // Whatever it met, that is why.
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
        "connect anew, on one that lives as long as the coordinator; its lease takes what it held",
    )
}
