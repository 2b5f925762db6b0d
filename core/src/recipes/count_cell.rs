//! A cell with a count ([`decide::count`](crate::decide::count)), which each operation changes at most
//! once.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::cell_handle::CellHandle;
use super::count_operations::serve;
use crate::contracts::VersionedValue;
use crate::count_writer::{CountTerms, CountWant, CountWriter};
use crate::decide::count::{Change, Count};
use crate::error::Result;

/// All handles of a client for the same cell are one writer.
#[derive(Clone)]
pub(super) struct CountCell {
    pub(super) handle: CellHandle,
    initial: Option<u32>,
    writer: Arc<CountWriter>,
}

impl CountCell {
    pub(super) fn new(handle: CellHandle, initial: Option<u32>) -> Self {
        let writer = handle.client.count_writer(&handle.cell);
        Self { handle, initial, writer }
    }

    pub(super) async fn read(&self) -> Result<Count> {
        self.count(self.handle.read().await?.as_ref())
    }

    /// Returns the count in a cell, or the first value without a cell. `Conflict`: the cell is not a count,
    /// or started with another value.
    pub(super) fn count(&self, cell: Option<&VersionedValue>) -> Result<Count> {
        Ok(Count::in_cell(cell.map(|cell| &*cell.value), self.initial)?)
    }

    /// Changes the count at most once, and returns the new value; `None` if no change was needed. Retries for
    /// one TTL.
    ///
    /// # Errors
    /// * `OutcomeUnknown`: the change may have been applied.
    /// * `Unavailable`: not applied.
    /// * `Timeout`: not applied, because other clients changed the count before each try.
    /// * `InvalidArgument` (`number`): the sum does not fit.
    ///
    /// # Cancel safety
    /// A dropped change may still be applied, at most once.
    pub(super) async fn change(&self, change: Change) -> Result<Option<i64>> {
        let (answer, answered) = oneshot::channel();
        let terms = CountTerms { initial: self.initial, life: self.handle.life };
        self.wanted(CountWant::Change(terms, change, answer), answered).await
    }

    /// Deletes the count: after the changes that this client began before the call, and before its later ones.
    pub(super) fn delete(&self) -> impl Future<Output = Result<bool>> {
        let (answer, answered) = oneshot::channel();
        self.wanted(CountWant::Delete(answer), answered)
    }

    fn wanted<T>(
        &self,
        want: CountWant,
        answered: oneshot::Receiver<Result<T>>,
    ) -> impl Future<Output = Result<T>> {
        let Self { handle, writer, .. } = self;
        writer.desk.leave(want);
        let serve = || serve(Arc::clone(writer), handle.clone());
        writer.desk.served(&handle.client.cleanup, answered, serve)
    }
}
