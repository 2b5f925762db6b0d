//! A cell with a count, changed at most once by each operation.
//! [`decide::count`](crate::decide::count) has the protocol and the argument. A server that can changes
//! the count by itself (`count_request`); for others it is read, and written on the version that was
//! read (`count_attempt`).

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
    // What the count begins with, where its users agree on that.
    initial: Option<u32>,
    writer: Arc<Mutex<CountWriter>>,
}

struct CountWriter {
    id: u64,
    // The number of its last operation.
    last: u64,
    // The cell as it was seen last: the next operation expects it, and needs one round trip if
    // nobody else has written since.
    seen: Option<VersionedValue>,
    // How often the count had been written at least, where the server changes counts by itself.
    writes: Option<u64>,
}

impl CountCell {
    pub(super) fn new(handle: CellHandle, initial: Option<u32>) -> Self {
        let writer = CountWriter { id: NodeId::random().as_u64(), last: 0, seen: None, writes: None };
        Self { handle, initial, writer: Arc::new(Mutex::new(writer)) }
    }

    /// The count as it is on the server.
    pub(super) async fn read(&self) -> Result<Count> {
        self.count(self.handle.read().await?.as_ref())
    }

    /// The count in a cell, or the one that it begins with.
    ///
    /// # Errors
    /// `Conflict` when it is another thing, or began with another number.
    pub(super) fn count(&self, cell: Option<&VersionedValue>) -> Result<Count> {
        Ok(Count::in_cell(cell.map(|cell| &*cell.value), self.initial)?)
    }

    /// Changes the count, at most once, and answers its value then; `None` if nothing was to be
    /// changed. Retries until the outcome is known, for one TTL.
    ///
    /// # Errors
    /// `OutcomeUnknown` when it may have been applied; `Unavailable` when it was surely not; `Timeout` when
    /// others changed the count before each try; `InvalidArgument` naming `number` when the sum does
    /// not fit.
    ///
    /// # Cancel safety
    /// A dropped change may or may not be applied, once.
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
