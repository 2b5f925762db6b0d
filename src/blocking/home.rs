//! The thread that the runtime of one coordinator lives on.

use std::pin::pin;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

use super::in_async_code::refuse_in_async_code;
use super::park::wait_for;
use crate::{Coordinator, Error, ErrorKind, Result};

/// Keeps a coordinator's runtime alive. Every handle, guard and watch has one.
#[derive(Clone)]
pub(super) struct Home {
    inhabitant: Arc<Inhabitant>,
    // Those of the other members, for what is over several coordinators.
    _beside: Option<Arc<[Home]>>,
}

struct Inhabitant {
    runtime: Handle,
    coordinator: OnceLock<Coordinator>,
    // Ends the thread, which closes the coordinator first.
    end: Option<oneshot::Sender<Coordinator>>,
}

impl Home {
    /// Starts a thread with a runtime, and connects on it.
    pub(super) fn open(connect: impl Future<Output = Result<Coordinator>>) -> Result<(Self, Coordinator)> {
        refuse_in_async_code().map_err(|error| error.in_operation("connect"))?;
        let home = Self::start().map_err(|error| {
            Error::new(ErrorKind::Unavailable, "no thread could be started for its runtime")
                .in_operation("connect")
                .because(error)
        })?;
        let coordinator = home.run(connect)?;
        // Set once, here.
        let _ = home.inhabitant.coordinator.set(coordinator.clone());
        Ok((home, coordinator))
    }

    /// The first member's, which keeps those of all.
    pub(super) fn of_members<'a>(members: impl IntoIterator<Item = &'a Home>) -> Result<Self> {
        let all: Arc<[Home]> = members.into_iter().cloned().collect();
        let first = all.first().ok_or_else(|| Error::invalid("members", "there is no lock to acquire"))?;
        Ok(Self { inhabitant: Arc::clone(&first.inhabitant), _beside: Some(all) })
    }

    fn start() -> std::io::Result<Self> {
        let (end, ended) = oneshot::channel();
        let (begin, begun) = mpsc::sync_channel(1);
        thread::Builder::new().name("latchwork".to_owned()).spawn(move || {
            // Built and dropped here: a runtime may not be dropped in async code, where the last
            // handle may be.
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(begin.send(Err(error))),
            };
            if begin.send(Ok(runtime.handle().clone())).is_ok() {
                runtime.block_on(live(ended));
            }
        })?;
        let gone = |_| Err(std::io::Error::other("the thread has ended"));
        let runtime = begun.recv().unwrap_or_else(gone)?;
        let inhabitant = Inhabitant { runtime, coordinator: OnceLock::new(), end: Some(end) };
        Ok(Self { inhabitant: Arc::new(inhabitant), _beside: None })
    }

    /// Runs an operation to its end on this thread, beside the runtime's.
    pub(super) fn run<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        refuse_in_async_code()?;
        let _entered = self.inhabitant.runtime.enter();
        wait_for(operation)
    }

    /// As [`run`](Self::run), for this long at most, by the coordinator's clock. `None` at its end.
    pub(super) fn run_for<T>(
        &self,
        within: Duration,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<Option<T>> {
        let clock = self.inhabitant.coordinator.get().expect("connected").lease().clock().clone();
        let until = clock.now() + within;
        self.run(async {
            match select(pin!(operation), pin!(clock.sleep_until(until))).await {
                Either::Left((answer, _)) => answer.map(Some),
                Either::Right(((), _)) => Ok(None),
            }
        })
    }

    /// As [`run_for`](Self::run_for), and answers `Timeout` at the end.
    pub(super) fn run_within<T>(
        &self,
        name: &'static str,
        key: &str,
        within: Duration,
        operation: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        self.run_for(within, operation)?.ok_or_else(|| {
            Error::new(ErrorKind::Timeout, format!("it lasts longer than {within:?}"))
                .in_operation(name)
                .on(key)
        })
    }
}

/// The life of a runtime's thread.
async fn live(ended: oneshot::Receiver<Coordinator>) {
    if let Ok(coordinator) = ended.await
        && let Err(error) = coordinator.close().await
    {
        tracing::debug!(%error, "not everything was given back behind the last handle; the lease runs out");
    }
}

impl Drop for Inhabitant {
    fn drop(&mut self) {
        // Without a coordinator the thread ends at once; if it has ended, there is nobody to tell.
        if let (Some(end), Some(coordinator)) = (self.end.take(), self.coordinator.take()) {
            let _ = end.send(coordinator);
        }
    }
}
