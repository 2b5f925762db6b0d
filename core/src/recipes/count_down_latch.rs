//! A latch that opens when it was counted down.

use std::time::Duration;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::decide::count::Change;
use crate::error::{Error, ErrorKind, Result};

/// A latch that opens when it was counted down from `count` to 0, and stays open.
///
/// *Protocol.* The count stands in one cell on the coordinator, changed as that of a
/// [`Counter`](super::Counter) is: each count-down is applied at most once. Waiting is a watch of
/// the cell. All clients give the same count; one that gives another gets `Conflict`.
///
/// *Counts belong to nobody.* A worker that dies before it counts down leaves the latch closed for
/// ever. So bound the wait, by tokio's `timeout`, and read how many are missing
/// ([`count`](Self::count)); or count live members instead, which a latch does not do.
///
/// *When the lease is lost*, nothing happens to the count: it hangs on no lease. It stays, open or
/// not, until it is [deleted](Self::delete), or goes when nobody uses it any more, where
/// [that is asked for](Self::with_time_to_idle).
///
/// *Source.* Java's `CountDownLatch`; Redisson's `RCountDownLatch`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let loaded = coordinator.count_down_latch("loaded", 2)?;
/// assert_eq!(loaded.count_down().await?, 1);
/// assert_eq!(loaded.count_down().await?, 0);
/// loaded.wait().await?;
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct CountDownLatch {
    count: CountCell,
}

impl CountDownLatch {
    pub(crate) fn new(handle: CellHandle, count: u32) -> Result<Self> {
        if count == 0 {
            return Err(Error::invalid("count", "must not be zero").on(handle.cell.name()));
        }
        Ok(Self { count: CountCell::new(handle, Some(count)) })
    }

    /// From the next count-down by this handle on, the latch goes when nobody has used it for `time`:
    /// no earlier, and a quarter later at most, beside the server's own delays. Validates, no I/O.
    ///
    /// Who comes after its end finds a closed latch with its whole count, also where it was open. So
    /// choose a time in which everybody has come. Whoever [waits](Self::wait) uses it, since that
    /// reads once a TTL; so `time` is two TTLs at least, and 366 days at most. The last count-down
    /// decides: one by a handle without this option lets the latch stay.
    ///
    /// # Errors
    /// `InvalidArgument` naming `time_to_idle`; `Unsupported` where the backend has no
    /// [`idle_cells`](crate::Capabilities::idle_cells): a lazy client refuses the first write then.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// How many count-downs are missing: one round trip.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` when the latch began with another count, or something else stands
    /// in its place on the server; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn count(&self) -> Result<u32> {
        let count = self.count.read().await;
        self.count.handle.in_context("count", count.and_then(|count| missing(count.value())))
    }

    /// Counts down by one, and answers how many are missing; 0 if it was open already. It is
    /// applied at most once, and retried until that is known, for one TTL.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not applied; `Timeout` likewise, when others counted down
    /// before each try; `OutcomeUnknown` when it may have been applied. Others as [`count`](Self::count).
    ///
    /// # Cancel safety
    /// A dropped call may or may not be applied, once.
    pub async fn count_down(&self) -> Result<u32> {
        let left = self.count.change(Change::Down).await;
        self.count.handle.in_context("count_down", left.and_then(|left| missing(left.unwrap_or(0))))
    }

    /// Waits until it is open, without a deadline. It waits through outages.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer at first, within twice the request timeout;
    /// `Lost` with the reason `Forgotten` when the server is without its data. Others as
    /// [`count`](Self::count).
    ///
    /// # Cancel safety
    /// Cancel-safe.
    pub async fn wait(&self) -> Result<()> {
        let open = async {
            let (mut watcher, mut seen) = (self.count.handle.watcher().await?, None);
            loop {
                let cell = watcher.next(&mut seen, |cell| Ok(cell.clone())).await?;
                if self.count.count(cell.as_ref())?.value() == 0 {
                    return Ok(());
                }
            }
        };
        self.count.handle.in_context("wait", open.await)
    }

    /// Deletes it: it is closed again, with its whole count. Answers whether it was there. One try.
    /// Who waits goes on waiting, for the new count. A count-down that is under way may be applied
    /// after it, and so may, on Redis and ZooKeeper, a request whose reply was lost, though its count-down
    /// was made by another one: where that matters, use another key for the next round.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not deleted; `OutcomeUnknown` when it may have been. Others as
    /// [`count`](Self::count).
    ///
    /// # Cancel safety
    /// A dropped deletion may or may not be made.
    pub async fn delete(&self) -> Result<bool> {
        self.count.handle.in_context("delete", self.count.delete().await)
    }
}

addressed!(CountDownLatch, self => self.count.handle.cell);

fn missing(count: i64) -> Result<u32> {
    u32::try_from(count).map_err(|_| Error::new(ErrorKind::Conflict, "something else than a latch is stored"))
}
