//! A number that all clients share.

use std::time::Duration;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::decide::count::Change;
use crate::error::Result;

/// A number that all clients share; it begins with 0.
///
/// *Protocol.* The number stands in one cell, with the record of the last operation of each of the
/// last 48 writers. On Redis the server makes a change by itself: one round trip among any number of
/// clients, and one more where 48 others have changed the number since this handle did. On ZooKeeper
/// and etcd it is a compare-and-set of the whole cell: one round trip where nobody else has changed it
/// since this handle did, and one more for each change that came between. A handle and its clones are
/// one writer, whose changes follow one another: clone a handle rather than making one for each change.
///
/// *Why a change is applied at most once.* The server finds the record of an operation that arrives
/// again, and answers from it. A compare-and-set can be made on one version of the cell only: it is
/// sent again until the cell has another version, and then the records tell whether it was made. They
/// tell it unless 48 other writers have changed the number since; then the answer is `OutcomeUnknown`. Redis'
/// `INCRBY`, and so Redisson's `RAtomicLong`, cannot tell.
///
/// *When the lease is lost*, nothing happens to the number: it hangs on no lease. It stays until it
/// is [deleted](Self::delete), or goes when nobody uses it any more, where
/// [that is asked for](Self::with_time_to_idle).
///
/// *Source.* Curator's `DistributedAtomicLong` (a compare-and-set with retries). The records are
/// those of Redis' and Raft's client sessions: the last operation and its answer, by client.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let visits = coordinator.counter("visits")?;
/// assert_eq!(visits.add(3).await?, 3);
/// assert_eq!(visits.add(-1).await?, 2);
/// assert!(visits.compare_and_set(2, 10).await?);
/// assert_eq!(visits.get().await?, 10);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Counter {
    count: CountCell,
}

impl Counter {
    pub(crate) fn new(handle: CellHandle) -> Self {
        Self { count: CountCell::new(handle, None) }
    }

    /// From the next change by this handle on, the number goes when nobody has used it for `time`: it
    /// is 0 again then. No earlier, and a quarter later at most, beside the server's own delays.
    /// Validates, no I/O.
    ///
    /// A read or a change by any client is a use. `time` is two TTLs at least, since a change whose
    /// reply was lost is looked for during one, and 366 days at most. The last change decides: one by
    /// a handle without this option lets the number stay, one with another time sets that. Clones
    /// that were made before do not have it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `time_to_idle`; `Unsupported` where the backend has no
    /// [`idle_cells`](crate::Capabilities::idle_cells): a lazy client refuses the first write then.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// The number now: one round trip.
    ///
    /// # Errors
    /// `Unavailable`; `Conflict` when something else stands in its place on the server;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn get(&self) -> Result<i64> {
        self.count.handle.in_context("get", self.count.read().await.map(|count| count.value()))
    }

    /// Adds a number, which may be negative, and answers the sum. It is applied at most once, and
    /// retried until that is known, for one TTL.
    ///
    /// # Errors
    /// `InvalidArgument` naming `number` when the sum does not fit into an `i64`; `Unavailable` when
    /// it was surely not applied; `Timeout` likewise, when others changed the counter before each
    /// try; `OutcomeUnknown` when it may have been applied. Others as [`get`](Self::get).
    ///
    /// # Cancel safety
    /// A dropped add may or may not be applied, once.
    pub async fn add(&self, number: i64) -> Result<i64> {
        let added = self.count.change(Change::Add(number)).await;
        self.count.handle.in_context("add", added.map(|sum| sum.expect("an add always changes the count")))
    }

    /// Sets it to `new` if it is `expected`. Answers whether it was. As [`add`](Self::add)
    /// otherwise.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// A dropped call may or may not be applied, once.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool> {
        let set = self.count.change(Change::Swap { from: expected, to: new }).await;
        self.count.handle.in_context("compare_and_set", set.map(|set| set.is_some()))
    }

    /// Deletes it: it is 0 again, and knows nothing of any change. Answers whether it was there. One
    /// try. A change of another client that is under way may be applied before or after, and so may, on
    /// Redis and ZooKeeper, a request whose reply was lost, though its change was made by another one.
    ///
    /// # Errors
    /// `Unavailable` when it was surely not deleted; `OutcomeUnknown` when it may have been. Others as
    /// [`get`](Self::get).
    ///
    /// # Cancel safety
    /// A dropped deletion may or may not be made.
    pub async fn delete(&self) -> Result<bool> {
        self.count.handle.in_context("delete", self.count.delete().await)
    }
}

addressed!(Counter, self => self.count.handle.cell);
