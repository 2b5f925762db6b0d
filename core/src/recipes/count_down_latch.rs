use std::time::Duration;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::decide::count::Change;
use crate::error::{Error, ErrorKind, Result};

/// A latch that opens when it was counted down from `count` to 0, and remains open.
///
/// *Protocol.* One cell has the count; each count-down is applied at most once, as a change of a
/// [`Counter`](super::Counter). All clients must give the same count.
///
/// *A dead worker does not count down*, and the latch remains closed: bound the wait by tokio's `timeout`.
/// For live members, use a [`Group`](super::Group) or a [`Barrier`](super::Barrier).
///
/// *When the lease is lost*, the count remains, until it is [deleted](Self::delete) or its [time to
/// idle](Self::with_time_to_idle) ends.
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

    /// Lets the server delete the latch when no client has used it for `time`. The latch is then closed
    /// again, with its whole count. A [wait](Self::wait) is a use once a TTL. The rest is as
    /// [`SharedValue::with_time_to_idle`](super::SharedValue::with_time_to_idle).
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// Reads how many count-downs are missing. One round trip.
    ///
    /// # Errors
    /// * `Conflict`: the latch began with another count, or the key contains something other than a latch.
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn count(&self) -> Result<u32> {
        let count = self.count.read().await;
        self.count.handle.in_context("count", count.and_then(|count| missing(count.value())))
    }

    /// Counts down by one, at most once, and returns how many count-downs are missing; 0 if the latch was
    /// open already. The client retries for one TTL.
    ///
    /// # Errors
    /// * `Timeout`: other clients counted down before each try.
    /// * The other errors of [`count`](Self::count).
    ///
    /// # Cancel safety
    /// A dropped call may still be applied, at most once.
    pub async fn count_down(&self) -> Result<u32> {
        let left = self.count.change(Change::Down(1)).await;
        self.count.handle.in_context("count_down", left.and_then(|left| missing(left.unwrap_or(0))))
    }

    /// Waits until the latch is open, without a deadline and also during an outage.
    ///
    /// # Errors
    /// * `Unavailable`: at the start, the server does not answer within twice the request timeout.
    /// * `Lost` (`Forgotten`): the server lost its data.
    /// * The other errors of [`count`](Self::count).
    ///
    /// # Cancel safety
    /// A dropped wait changes nothing.
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

    /// Deletes the latch, so that it is closed again with its whole count. Returns whether it existed. The
    /// client does not retry.
    ///
    /// Waiters then wait for the new count. A count-down that was sent before may be applied after the
    /// deletion; on Redis and ZooKeeper also a lost request whose retry was applied. If that matters, use
    /// another key.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    ///
    /// # Cancel safety
    /// A dropped call may still delete the latch.
    pub async fn delete(&self) -> Result<bool> {
        self.count.handle.in_context("delete", self.count.delete().await)
    }
}

addressed!(CountDownLatch, self => self.count.handle.cell);

fn missing(count: i64) -> Result<u32> {
    u32::try_from(count)
        .map_err(|_| Error::new(ErrorKind::Conflict, "the stored value is not a latch: use another key"))
}
