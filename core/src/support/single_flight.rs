//! Work that one task does for all callers, such as opening a connection (as Go's package `singleflight`). In
//! the future of the first caller it would be lost when that caller gives up, and would stop when nothing
//! polls it.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::{Error, ErrorKind, Result};

/// Runs one task at a time.
#[derive(Debug)]
pub struct SingleFlight<T: Clone>(Mutex<Option<SharedTask<T>>>);

/// A task whose result several callers can wait for.
#[derive(Clone, Debug)]
pub struct SharedTask<T: Clone> {
    // `None` if the task died.
    result: Shared<BoxFuture<'static, Option<T>>>,
    task: AbortHandle,
}

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// Joins the running work, or starts `work` on `runtime`. An earlier run may have just ended, so `work`
    /// checks whether it is still needed.
    pub fn run<F>(&self, runtime: &Handle, work: impl FnOnce() -> F) -> SharedTask<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.run_if(runtime, || Some(work())).expect("running, or started")
    }

    /// Joins the running work, or starts the future of `work`, if it returns one. `work` runs under the lock
    /// of this object, so it must not use this object.
    pub fn run_if<F>(&self, runtime: &Handle, work: impl FnOnce() -> Option<F>) -> Option<SharedTask<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut last = self.0.lock();
        if let Some(running) = last.as_ref().filter(|task| !task.task.is_finished()) {
            return Some(running.clone());
        }
        Some(last.insert(SharedTask::begin(runtime, work()?)).clone())
    }
}

impl<T> SharedTask<T>
where
    T: Clone + Send + Sync + 'static,
{
    /// Starts `work` on `runtime`.
    pub fn begin(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        let work = runtime.spawn(work);
        let task = work.abort_handle();
        Self { result: async move { work.await.ok() }.boxed().shared(), task }
    }

    /// Waits for the result. `None` if the task panicked or its runtime ended.
    ///
    /// # Cancel safety
    /// The work continues.
    pub async fn wait(self) -> Option<T> {
        self.result.await
    }

    /// Waits for at most `within`, since the runtime of the work may be blocked. `what` names the work in
    /// errors.
    ///
    /// # Errors
    /// `Unavailable` if the work takes longer, panicked, or its runtime ended.
    ///
    /// # Cancel safety
    /// The work continues, even after an error, and a later caller gets its result.
    pub async fn wait_within(self, within: Duration, what: &str) -> Result<T> {
        let why = match tokio::time::timeout(within, self.wait()).await {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => format!("{what} did not finish: its task panicked, or its runtime ended"),
            Err(_) => format!("{what} did not finish within {within:?}"),
        };
        Err(Error::new(ErrorKind::Unavailable, why))
    }
}

impl<T: Clone> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    fn under_way(flights: &SingleFlight<u32>) -> Option<SharedTask<u32>> {
        flights.run_if(&Handle::current(), || None::<std::future::Pending<u32>>)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn concurrent_calls_share_one_result_and_later_calls_rerun() {
        let (flights, may_end) = (SingleFlight::default(), Arc::new(Notify::new()));
        let join = |result: u32| {
            let may_end = Arc::clone(&may_end);
            flights.run(&Handle::current(), move || async move {
                may_end.notified().await;
                result
            })
        };
        assert!(under_way(&flights).is_none());
        let first = join(1);
        // The first caller gives up, and the work continues.
        assert_eq!(join(2).wait().now_or_never(), None);
        let also = under_way(&flights).expect("it is under way");
        may_end.notify_one();
        assert_eq!((first.wait().await, also.wait().await), (Some(1), Some(1)));
        assert!(under_way(&flights).is_none());
        may_end.notify_one();
        assert_eq!(join(3).wait_within(SECOND, "it").await.expect("in time"), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn work_that_takes_too_long_or_dies_is_an_error_and_begins_again_only_when_it_is_over() {
        let flights = SingleFlight::<u32>::default();
        let join = || flights.run(&Handle::current(), std::future::pending);
        let error = join().wait_within(SECOND, "the opening").await.expect_err("it never ends");
        assert_eq!(
            (error.kind(), error.to_string().contains("the opening did not finish within")),
            (ErrorKind::Unavailable, true)
        );
        assert!(under_way(&flights).is_some(), "it goes on");
        let flights = SingleFlight::<u32>::default();
        let died = flights.run(&Handle::current(), || async { panic!("planted") });
        let error = died.wait_within(SECOND, "the opening").await.expect_err("it died");
        assert!(error.to_string().contains("the opening did not finish"), "{error}");
        assert_eq!(flights.run(&Handle::current(), || async { 4 }).wait().await, Some(4));
    }
}
