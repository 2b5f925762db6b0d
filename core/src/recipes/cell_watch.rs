//! A live view of a cell.

use std::fmt;
use std::sync::Arc;

use futures_util::Stream;
use tokio::sync::watch;

use super::cell_handle::CellHandle;
use crate::contracts::Cell;
use crate::error::{Error, ErrorKind, Result};
use crate::watched::{View, Watched};

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
    // Ends the task when the last view is dropped.
    _watched: Arc<Watched>,
    views: watch::Receiver<View>,
    // What `changed` answered last.
    answered: Option<Option<Cell>>,
}

impl ValueWatch {
    /// Watches a cell, and waits until it was read.
    pub(super) async fn open(handle: &CellHandle) -> Result<Self> {
        let watched = handle.watch();
        let mut views = watched.views();
        let read = async {
            let seen = views.wait_for(|view| !matches!(view, View::Unread)).await;
            seen.map(|view| (*view).clone()).map_err(|_| Error::closed())
        };
        let within = handle.client.request_timeout.saturating_mul(2);
        let late = || Error::new(ErrorKind::Unavailable, "the value could not be read and watched in time");
        let first = handle
            .client
            .serve(async { tokio::time::timeout(within, read).await.unwrap_or_else(|_| Err(late())) });
        if let View::Ended(error) = first.await? {
            return Err(error);
        }
        Ok(Self { handle: handle.clone(), _watched: watched, views, answered: None })
    }

    /// What was seen last, without a request. During an outage this may be old:
    /// [`is_current`](Self::is_current) tells.
    ///
    /// # Errors
    /// Why the view has ended: `Closed`; `Lost` with the reason `Forgotten` when the server is
    /// without its data; `Forbidden`; `Conflict`.
    pub fn latest(&self) -> Result<Option<Cell>> {
        seen(&self.views.borrow())
    }

    /// Whether the server is watched now: it has told of every change, or is about to.
    pub fn is_current(&self) -> bool {
        matches!(*self.views.borrow(), View::Cell(_, true))
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
        let Self { handle, views, answered, .. } = self;
        let next = async {
            let is_new = |view: &View| match view {
                View::Unread => false,
                View::Cell(cell, _) => answered.as_ref() != Some(cell),
                View::Ended(_) => true,
            };
            let view = views.wait_for(is_new).await.map_err(|_| Error::closed())?;
            seen(&view)
        };
        let cell = handle.client.serve(next).await?;
        *answered = Some(cell.clone());
        Ok(cell)
    }

    pub(super) fn handle(&self) -> &CellHandle {
        &self.handle
    }

    /// What was seen last; [`news`](Self::news) waits for what comes after it.
    pub(super) fn glance(&mut self) -> Result<Option<Cell>> {
        seen(&self.views.borrow_and_update())
    }

    /// Waits until something else may be seen than at the last glance.
    pub(super) async fn news(&mut self) -> Result<()> {
        let news = self.views.changed();
        self.handle.client.serve(async { news.await.map_err(|_| Error::closed()) }).await
    }

    /// The answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<Cell>>> + Send {
        futures_util::stream::unfold(Some(self), |watch| async {
            let mut watch = watch?;
            let next = watch.changed().await;
            let rest = next.is_ok().then_some(watch);
            Some((next, rest))
        })
    }
}

fn seen(view: &View) -> Result<Option<Cell>> {
    match view {
        View::Cell(cell, _) => Ok(cell.clone()),
        View::Ended(error) => Err(error.clone()),
        View::Unread => Err(Error::closed()),
    }
}

impl fmt::Debug for ValueWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueWatch")
            .field("cell", &self.handle.cell)
            .field("view", &*self.views.borrow())
            .finish_non_exhaustive()
    }
}
