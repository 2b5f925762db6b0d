//! A cell with a count, which each operation changes at most once.
//! [`decide::count`](crate::decide::count) has the protocol and the argument. If the server can change a
//! count, the client sends a request (`count_request`). Otherwise it reads the cell, and writes if the version
//! is the same (`count_attempt`).

use std::sync::Arc;

use tokio::sync::Mutex;

use super::cell_handle::CellHandle;
use super::count_attempt::CountAttempt;
use super::count_request;
use crate::contracts::{NodeId, VersionedValue};
use crate::decide::count::request::CountRequest;
use crate::decide::count::{Change, Count, Operation};
use crate::error::Result;

/// The count of one recipe's handle and its clones, which are one writer.
#[derive(Clone)]
pub(super) struct CountCell {
    pub(super) handle: CellHandle,
    // The first value of the count, if its users agree on one.
    initial: Option<u32>,
    writer: Arc<Mutex<CountWriter>>,
}

struct CountWriter {
    id: u64,
    // The number of its last operation.
    last: u64,
    // The last known cell. The next operation expects it, and needs one round trip if no other writer has
    // changed the cell.
    seen: Option<VersionedValue>,
    // A lower bound of the number of writes, if the server changes counts.
    writes: Option<u64>,
}

impl CountCell {
    pub(super) fn new(handle: CellHandle, initial: Option<u32>) -> Self {
        let writer = CountWriter { id: NodeId::random().as_u64(), last: 0, seen: None, writes: None };
        Self { handle, initial, writer: Arc::new(Mutex::new(writer)) }
    }

    /// Reads the count on the server.
    pub(super) async fn read(&self) -> Result<Count> {
        self.count(self.handle.read().await?.as_ref())
    }

    /// Returns the count in a cell, or the first value if there is no cell.
    ///
    /// # Errors
    /// `Conflict`: the cell is not a count, or started with another value.
    pub(super) fn count(&self, cell: Option<&VersionedValue>) -> Result<Count> {
        Ok(Count::in_cell(cell.map(|cell| &*cell.value), self.initial)?)
    }

    /// Changes the count at most once, and returns the new value; `None` if no change was needed. Retries for
    /// one TTL until the outcome is known.
    ///
    /// # Errors
    /// * `OutcomeUnknown`: the change may have been applied.
    /// * `Unavailable`: the change was not applied.
    /// * `Timeout`: not applied, because other clients changed the count before each try.
    /// * `InvalidArgument` (`number`): the sum does not fit.
    ///
    /// # Cancel safety
    /// A dropped change may still be applied, at most once.
    pub(super) async fn change(&self, change: Change) -> Result<Option<i64>> {
        let mut writer = self.writer.lock().await;
        // Every other number: the one that follows may be recorded for a refusal.
        writer.last += 2;
        let operation = Operation { writer: writer.id, number: writer.last };
        let (initial, since) = (self.initial, writer.writes);
        let request = CountRequest { change, operation, initial, since, in_doubt: false };
        if let Some(answer) = count_request::natively(&self.handle, request, &mut writer.writes).await {
            return answer;
        }
        let attempt = CountAttempt::new((&self.handle, self.initial), change, operation, writer.seen.take());
        let (answer, seen) = attempt.finish().await;
        writer.seen = seen;
        answer
    }

    /// Deletes the count.
    pub(super) async fn delete(&self) -> Result<bool> {
        let mut writer = self.writer.lock().await;
        (writer.seen, writer.writes) = (None, None);
        self.handle.delete().await
    }
}
