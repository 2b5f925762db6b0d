//! Work that one task does for all who need it.
//!
//! *Why.* What a client opens when it is needed (a connection, a lease, a session) is to be opened once, however many ask. In the
//! future of whoever came first it would be undone when that one gives up, and keep all others waiting when nobody polls it.
//! So it is done in a task of its own, on the client's runtime. (Known as single flight, after Go's package of that name.)

use std::fmt;
use std::future::Future;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::{Error, ErrorKind, Result};

/// Work of which there is one at a time.
pub struct SingleFlight<T>(Mutex<Option<Flight<T>>>);

/// Work that is under way, or has ended.
pub struct Flight<T>(watch::Receiver<Option<T>>);

impl<T: Clone + Send + Sync + 'static> SingleFlight<T> {
    /// The work that is under way; else this, begun on `runtime`. An earlier one may have ended just now: it is for the work to
    /// look whether it is needed still.
    pub fn join<F>(&self, runtime: &Handle, work: impl FnOnce() -> F) -> Flight<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.join_if(runtime, || Some(work())).expect("under way, or begun")
    }

    /// The work that is under way; else this, if there is any. It is asked for when nothing is under way, and begun before
    /// another can be: under the lock of this flight, which it must not ask itself.
    pub fn join_if<F>(&self, runtime: &Handle, work: impl FnOnce() -> Option<F>) -> Option<Flight<T>>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut last = self.0.lock();
        if let Some(under_way) = last.as_ref().filter(|flight| flight.is_under_way()) {
            return Some(under_way.clone());
        }
        Some(last.insert(Flight::begin(runtime, work()?)).clone())
    }
}

impl<T> Flight<T>
where
    T: Send + Sync + 'static,
{
    /// Work that is done once, on `runtime`.
    pub fn begin(runtime: &Handle, work: impl Future<Output = T> + Send + 'static) -> Self {
        let (sender, receiver) = watch::channel(None);
        runtime.spawn(async move { sender.send_replace(Some(work.await)) });
        Self(receiver)
    }
}

impl<T> Flight<T>
where
    T: Clone,
{
    fn is_under_way(&self) -> bool {
        // Without a result, and not dead.
        self.0.has_changed().is_ok() && self.0.borrow().is_none()
    }

    /// Waits for its end: `None` where its task, or its runtime, died before.
    ///
    /// # Cancel safety
    /// The work goes on.
    pub async fn landed(mut self) -> Option<T> {
        self.0.wait_for(Option::is_some).await.ok()?.clone()
    }

    /// Waits for its end, but not longer than this: its runtime may be there and not be driven. `what` names it in errors.
    ///
    /// # Errors
    /// `Unavailable` when it took longer, or died.
    ///
    /// # Cancel safety
    /// The work goes on, also behind that error: who comes later finds what it came to.
    pub async fn landed_within(self, within: Duration, what: &str) -> Result<T> {
        let why = match tokio::time::timeout(within, self.landed()).await {
            Ok(Some(result)) => return Ok(result),
            Ok(None) => format!("{what} came to no end: its task died, or its runtime"),
            Err(_) => format!("{what} took too long"),
        };
        Err(Error::new(ErrorKind::Unavailable, why))
    }
}

impl<T> Default for SingleFlight<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Clone for Flight<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> fmt::Debug for SingleFlight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SingleFlight")
    }
}

impl<T> fmt::Debug for Flight<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flight")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;
    use tokio::sync::Notify;

    use super::*;

    fn under_way(flights: &SingleFlight<u32>) -> Option<Flight<u32>> {
        flights.join_if(&Handle::current(), || None::<std::future::Pending<u32>>)
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn whoever_comes_meanwhile_gets_the_one_result_and_whoever_comes_later_a_new_one() {
        let (flights, may_end) = (SingleFlight::default(), Arc::new(Notify::new()));
        let join = |result: u32| {
            let may_end = Arc::clone(&may_end);
            flights.join(&Handle::current(), move || async move {
                may_end.notified().await;
                result
            })
        };
        assert!(under_way(&flights).is_none());
        let first = join(1);
        // Given up, and dropped unpolled: it goes on.
        assert_eq!(join(2).landed().now_or_never(), None);
        let also = under_way(&flights).expect("it is under way");
        may_end.notify_one();
        assert_eq!((first.landed().await, also.landed().await), (Some(1), Some(1)));
        assert!(under_way(&flights).is_none());
        may_end.notify_one();
        assert_eq!(join(3).landed_within(SECOND, "it").await.expect("in time"), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_takes_too_long_or_dies_is_told_and_begun_anew_only_when_it_is_over() {
        let flights = SingleFlight::<u32>::default();
        let join = || flights.join(&Handle::current(), std::future::pending);
        let error = join().landed_within(SECOND, "the opening").await.expect_err("it never ends");
        assert_eq!(
            (error.kind(), error.to_string().contains("the opening took too long")),
            (&ErrorKind::Unavailable, true)
        );
        assert!(under_way(&flights).is_some(), "it goes on");
        let flights = SingleFlight::<u32>::default();
        let died = flights.join(&Handle::current(), || async { panic!("planted") });
        let error = died.landed_within(SECOND, "the opening").await.expect_err("it died");
        assert!(error.to_string().contains("the opening came to no end"), "{error}");
        assert_eq!(flights.join(&Handle::current(), || async { 4 }).landed().await, Some(4));
    }
}
