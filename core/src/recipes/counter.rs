use std::time::Duration;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::decide::count::Change;
use crate::error::Result;

/// A number that all clients share. It starts with 0.
///
/// *Protocol* (`docs/protocol/cells.md`). One cell contains the number, and a record of the last operation of
/// each of the last 48 writers. All handles of a client for one key are one writer, which adds up the
/// additions that wait.
///
/// On Redis a change is one round trip, and one more after 48 other clients' changes. On ZooKeeper and etcd
/// it is a compare-and-set: one round trip, and one more for each change by another client in between.
///
/// *Why a change is applied at most once.* The record shows whether an operation that is sent again was
/// applied. After 48 other writers the record is gone, and the result is `OutcomeUnknown`. Redis' `INCRBY`,
/// and so Redisson's `RAtomicLong`, has no record.
///
/// *When the lease is lost*, the number remains, until it is [deleted](Self::delete) or its [time to
/// idle](Self::with_time_to_idle) ends.
///
/// *Source.* Curator's `DistributedAtomicLong`; the records are as in Raft's client sessions.
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

    /// Lets the server delete the number when no client has used it for `time`. Then it is 0 again. The rest
    /// is as [`SharedValue::with_time_to_idle`](super::SharedValue::with_time_to_idle).
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// Reads the number. One round trip.
    ///
    /// # Errors
    /// * `Conflict`: the key contains something other than a counter.
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn get(&self) -> Result<i64> {
        self.count.handle.in_context("get", self.count.read().await.map(|count| count.value()))
    }

    /// Adds a number, which may be negative, at most once, and returns the sum. The client retries for one
    /// TTL.
    ///
    /// # Errors
    /// * `InvalidArgument` (`number`): the sum does not fit into an `i64`.
    /// * `Timeout`: other clients changed the counter before each try.
    /// * `OutcomeUnknown`: the addition may have been applied. Do not simply repeat the call.
    /// * The other errors of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// A dropped call may still be applied, at most once. A call that is not polled blocks no other call.
    pub async fn add(&self, number: i64) -> Result<i64> {
        let added = self.count.change(Change::Add(number)).await;
        self.count.handle.in_context("add", added.map(|sum| sum.expect("an add always changes the count")))
    }

    /// Sets the number to `new` if it is `expected`, and returns whether it was. At most once, with the
    /// retries of [`add`](Self::add).
    ///
    /// # Errors and cancel safety
    /// As [`add`](Self::add).
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool> {
        let set = self.count.change(Change::Swap { from: expected, to: new }).await;
        self.count.handle.in_context("compare_and_set", set.map(|set| set.is_some()))
    }

    /// Deletes the number and its records, so that it is 0 again. Returns whether it existed. The client does
    /// not retry.
    ///
    /// A change that was sent before may be applied after the deletion; on Redis and ZooKeeper also a lost
    /// request whose retry was applied.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Cancel safety
    /// A dropped call may still delete the number.
    pub async fn delete(&self) -> Result<bool> {
        self.count.handle.in_context("delete", self.count.delete().await)
    }
}

addressed!(Counter, self => self.count.handle.cell);
