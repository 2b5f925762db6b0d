use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;

use super::Coordinator;
use crate::contracts::Close;
use crate::error::{Error, Result};
use crate::seen;

impl Coordinator {
    /// Closes the client: gives back all nodes and the lease. Holds are lost (`Closed`), and later calls fail
    /// with `Closed`.
    ///
    /// The call waits, in this order:
    ///
    /// 1. for each hold under [`min_hold`](crate::recipes::Acquire::min_hold) that exists at the call, until
    ///    its time is over. (A hold that starts during the close ends early.)
    /// 2. one [margin](crate::Lease::margin), if a guard is alive or was dropped just after its fixed end, so
    ///    that its work can stop. Release your guards before to save this time.
    /// 3. for the server, at most twice the request timeout (four times for a client of both sides of a
    ///    [move](crate::Move)), and 2 ms for each hold beyond 1,024. If the server confirms nothing for one
    ///    request timeout, the call closes the lease, for at most one more request timeout.
    ///
    /// # Errors
    /// * `Unavailable`: the server did not confirm the close, or no thread drives the runtime on which the
    ///   client was connected. The lease then frees everything within the TTL plus the backend's expiry
    ///   bound.
    /// * `RuntimeGone`: that runtime has ended.
    ///
    /// # Cancel safety
    /// A dropped call may be repeated.
    pub async fn close(&self) -> Result<()> {
        let cleanup = &self.client().cleanup;
        tokio::select! {
            () = cleanup.kept_out() => {}
            _ = cleanup.home.gone() => {}
        }
        self.close_now().await
    }

    /// Closes the client as [`close`](Coordinator::close), but does not wait for holds under `min_hold`. They
    /// remain on the server if [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is
    /// true.
    ///
    /// # Errors and cancel safety
    /// As [`close`](Coordinator::close).
    pub async fn close_now(&self) -> Result<()> {
        let closed = self.client().close().await;
        closed.map_err(|error| error.in_operation("close"))
    }

    /// Runs `work` with this coordinator, and closes it when the work succeeds, fails or panics.
    ///
    /// # Errors
    /// The error of `work`, otherwise of [`close`](Coordinator::close).
    ///
    /// # Panics
    /// If `work` panics, after the close.
    ///
    /// # Cancel safety
    /// A dropped call gives everything back in the background, as long as the runtime lives.
    pub async fn close_after<T, E>(
        self,
        work: impl AsyncFnOnce(Coordinator) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E>
    where
        E: From<Error>,
    {
        let worked = AssertUnwindSafe(work(self.clone())).catch_unwind().await;
        let closed = self.close().await;
        match worked {
            Ok(Ok(done)) => closed.map(|()| done).map_err(E::from),
            failed => {
                if let Err(error) = closed {
                    seen::not_given_back(&error);
                }
                failed.unwrap_or_else(|panic| resume_unwind(panic))
            }
        }
    }
}

/// Crashes a client, as if its process were killed: for tests. Its nodes remain until the lease expires.
pub async fn crash(coordinator: &Coordinator) {
    // An abrupt close sends nothing, so it cannot fail.
    let _ = coordinator.client().backend.close(Close::Abrupt).await;
}
