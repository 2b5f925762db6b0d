//! A number that all clients share.

use std::time::Duration;

use super::cell_handle::CellHandle;
use super::count_cell::CountCell;
use super::handles::addressed;
use crate::decide::count::Change;
use crate::error::Result;

/// A number that all clients share. It starts with 0.
///
/// *Protocol.* One cell contains the number, and a record of the last operation of each of the last 48
/// writers. All handles that a client has for one key are one writer. It makes one operation at a time: the additions
/// that wait in the meantime become one, and each call gets its own sum.
///
/// * On Redis the server changes the number: one round trip with any number of clients, and one more if 48
///   other clients have changed the number since this client did.
/// * On ZooKeeper and etcd a change is a compare-and-set of the cell: one round trip if no other client has
///   changed the number since this client did, and one more for each change in between. If many clients change
///   the number at once, they take turns.
///
/// *Why a change is applied at most once.* On Redis the server finds the record of an operation that arrives
/// again, and answers from the record. A compare-and-set applies to one version of the cell only. The client
/// sends it again until the cell has another version, and then the records show whether it was applied. If
/// 48 other writers have changed the number since, the record is gone and the result is `OutcomeUnknown`.
/// Redis' `INCRBY`, and so Redisson's `RAtomicLong`, has no such record.
///
/// *When the lease is lost*, the number does not change, because it belongs to no lease. It remains until
/// it is [deleted](Self::delete), or until its [time to idle](Self::with_time_to_idle) ends, if it has one.
///
/// *Source.* Curator's `DistributedAtomicLong` (a compare-and-set with retries). The records are as in
/// Raft's client sessions: the last operation of each client, with its answer.
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

    /// Lets the server delete the number when no client has used it for `time`, from the next change by this
    /// handle on. Then it is 0 again. Checks the time, without I/O.
    ///
    /// The time is at least two TTLs, because a change whose reply was lost is retried for one TTL. The
    /// other rules are the same as for
    /// [`SharedValue::with_time_to_idle`](super::SharedValue::with_time_to_idle).
    ///
    /// # Errors
    /// As [`SharedValue::with_time_to_idle`](super::SharedValue::with_time_to_idle).
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.count.handle.set_time_to_idle(time)?;
        Ok(self)
    }

    /// Reads the number. One round trip.
    ///
    /// # Errors
    /// * `Conflict`: the key contains something other than a counter.
    /// * `Unavailable`, `Forbidden`, `Closed`, `RuntimeGone`: see [`ErrorKind`](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn get(&self) -> Result<i64> {
        self.count.handle.in_context("get", self.count.read().await.map(|count| count.value()))
    }

    /// Adds a number, which may be negative, and returns the sum.
    ///
    /// The addition is applied at most once. The client retries for one TTL until the outcome is known.
    ///
    /// # Errors
    /// * `InvalidArgument` (`number`): the sum does not fit into an `i64`.
    /// * `Unavailable`: the addition was not applied.
    /// * `Timeout`: the addition was not applied, because other clients changed the counter before each try.
    /// * `OutcomeUnknown`: the addition may have been applied. Do not simply repeat the call.
    /// * The other errors of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// A dropped call may still be applied, at most once. A call that is not polled blocks no other call.
    pub async fn add(&self, number: i64) -> Result<i64> {
        let added = self.count.change(Change::Add(number)).await;
        self.count.handle.in_context("add", added.map(|sum| sum.expect("an add always changes the count")))
    }

    /// Sets the number to `new` if it is `expected`, and returns whether it was. The change is
    /// applied at most once, with the same retries as in [`add`](Self::add).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    ///
    /// # Cancel safety
    /// A dropped call may still be applied, at most once.
    pub async fn compare_and_set(&self, expected: i64, new: i64) -> Result<bool> {
        let set = self.count.change(Change::Swap { from: expected, to: new }).await;
        self.count.handle.in_context("compare_and_set", set.map(|set| set.is_some()))
    }

    /// Deletes the number and its records, so that it is 0 again. Returns whether it existed. The client
    /// does not retry.
    ///
    /// A change that another client sent before may be applied after the deletion. On Redis and ZooKeeper
    /// this includes a request whose reply was lost, even if a retry has applied its change already.
    ///
    /// # Errors
    /// * `Unavailable`: the number was not deleted.
    /// * `OutcomeUnknown`: the number may have been deleted.
    /// * The other errors of [`get`](Self::get).
    ///
    /// # Cancel safety
    /// A dropped call may still delete the number.
    pub async fn delete(&self) -> Result<bool> {
        self.count.handle.in_context("delete", self.count.delete().await)
    }
}

addressed!(Counter, self => self.count.handle.cell);
