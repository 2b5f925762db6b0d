//! The end of a client.

use std::panic::{AssertUnwindSafe, resume_unwind};

use futures_util::FutureExt;

use super::Coordinator;
use crate::contracts::Close;
use crate::error::{Error, Result};
use crate::seen;

impl Coordinator {
    /// Gives everything back: nodes that are being removed, then every other node and the lease.
    /// Holds are lost as `Closed`, and later calls answer `Closed`. It waits, in this order, for
    ///
    /// 1. the least time of every hold under
    ///    [`min_hold`](crate::recipes::Acquire::min_hold) that exists at the call (one
    ///    that begins meanwhile is cut short);
    /// 2. one [margin](crate::Lease::margin), if a guard is alive, or was dropped just after its fixed
    ///    end. Guards are lost as `Closed` first, so that the work under them is over when the next
    ///    holder is admitted. This costs nothing if you release what you hold before the call;
    /// 3. the server, for at most twice the request timeout (four times for a client of both sides of
    ///    a [move](crate::Move)), and with retries. More than a thousand
    ///    holds are given back some at a time, so that nobody else waits for all of them: that may take
    ///    2 ms more for each beyond 1,024. It ends a request timeout after the server's last answer.
    ///
    /// # Errors
    /// `Unavailable` when the server did not confirm it, or when nothing drives the runtime that it
    /// was connected on: the lease then frees everything within TTL and a bound. `RuntimeGone`, at
    /// once, when that runtime has ended.
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn close(&self) -> Result<()> {
        let cleanup = &self.client().cleanup;
        tokio::select! {
            () = cleanup.kept_out() => {}
            _ = cleanup.home.gone() => {}
        }
        self.close_now().await
    }

    /// As [`close`](Coordinator::close), without waiting for holds under `min_hold`. Whether
    /// those outlive it is a capability
    /// ([`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close)).
    ///
    /// # Errors
    /// As [`close`](Coordinator::close).
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn close_now(&self) -> Result<()> {
        let closed = self.client().close().await;
        closed.map_err(|error| error.in_operation("close"))
    }

    /// Runs `work` with this coordinator, and closes it on each way out: when the work succeeds,
    /// fails or panics. So a program that ends early leaves nothing that the next one must wait
    /// for.
    ///
    /// # Errors
    /// The work's; else the close's, as [`close`](Coordinator::close).
    ///
    /// # Panics
    /// As the work, once everything is given back.
    ///
    /// # Cancel safety
    /// When dropped, it gives everything back in the background, as long as the runtime lives.
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

/// Crashes a client: it sends nothing more, and its holds are left to the lease, as if the process had
/// been killed. For tests.
pub async fn crash(coordinator: &Coordinator) {
    // An abrupt close sends nothing, so it cannot fail.
    let _ = coordinator.client().backend.close(Close::Abrupt).await;
}
