//! A live view of a cell.

use std::fmt;

use futures_util::Stream;

use super::cell_handle::CellHandle;
use super::watcher::{Watcher, answers};
use crate::contracts::Cell;
use crate::error::Result;

/// A live, cached view of a value. All views of one value on one client share one watch.
///
/// *Protocol.* The client watches the cell on the server, and reads it after each change, after
/// each new connection, and once a TTL in any case. The versions that a view sees only rise, and it
/// always sees the latest in the end. A view that is slow skips what came between.
///
/// Dropping it ends it; the watch ends with the last view. Views do not depend on the lease, which
/// may be lost meanwhile.
#[must_use = "a view that is dropped at once watches nothing"]
pub struct ValueWatch {
    handle: CellHandle,
    watcher: Watcher<Option<Cell>>,
    // What `changed` answered last.
    answered: Option<Option<Cell>>,
}

impl ValueWatch {
    /// Watches a cell, and waits until it was read.
    pub(super) async fn open(handle: &CellHandle) -> Result<Self> {
        let watcher = Watcher::open(&handle.client, handle.watch()).await?;
        Ok(Self { handle: handle.clone(), watcher, answered: None })
    }

    /// What was seen last, without a request. During an outage this may be old:
    /// [`is_current`](Self::is_current) tells.
    ///
    /// # Errors
    /// Why the view has ended: `Closed`; `Lost` with the reason `Forgotten` when the server is
    /// without its data; `Forbidden`; `Conflict`.
    pub fn latest(&self) -> Result<Option<Cell>> {
        self.watcher.latest()
    }

    /// Whether the server is watched now: it has told of every change, or is about to.
    pub fn is_current(&self) -> bool {
        self.watcher.is_current()
    }

    /// Waits until the value differs from the last answer, and answers it. The first call answers
    /// at once.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next call answers what a dropped one has not.
    pub async fn changed(&mut self) -> Result<Option<Cell>> {
        let next = self.next().await;
        self.handle.in_context("watch", next)
    }

    /// As [`changed`](Self::changed), for a recipe that names its own operation in errors.
    pub(super) async fn next(&mut self) -> Result<Option<Cell>> {
        self.watcher.next(&mut self.answered, |cell| Ok(cell.clone())).await
    }

    /// What was seen last; [`news`](Self::news) waits for what comes after it.
    pub(super) fn glance(&mut self) -> Result<Option<Cell>> {
        self.watcher.glance()
    }

    /// Waits until something else may be seen than at the last glance.
    pub(super) async fn news(&mut self) -> Result<()> {
        self.watcher.news().await
    }

    /// The answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<Cell>>> + Send {
        answers(self, |watch| Box::pin(watch.changed()))
    }
}

impl fmt::Debug for ValueWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueWatch")
            .field("cell", &self.handle.cell)
            .field("view", &self.watcher)
            .finish_non_exhaustive()
    }
}
