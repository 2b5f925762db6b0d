//! One watch for all who watch one cell on one client.
//!
//! *Protocol.* A task watches the cell and reads it after each news, and once a TTL in any case,
//! since the server or the network may lose news (WATCH-ORDER). Watchers share what it read last:
//! one that is slow sees the latest value, and nothing queues up. After an outage the task makes
//! the watch anew and reads again. The task ends with the last watcher.
//!
//! *Why nothing is missed.* The server watches before each read, so a change is either in what is
//! read, or told afterwards. Reads are linearizable, and versions rise at an address for ever. So
//! one that has fallen shows that the server is without its data: the watch ends as `Forgotten`.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::address::Address;
use crate::cleanup::Cleanup;
use crate::contracts::{Backend, Cell, ChangeWatch};
use crate::error::{Error, LostReason, Result};
use crate::support::Backoff;

/// The watched cells of a client.
#[derive(Debug, Default)]
pub(crate) struct WatchedCells(Mutex<HashMap<Address, Weak<Watched>>>);

/// One cell, as the task sees it.
#[derive(Debug)]
pub(crate) struct Watched {
    views: watch::Receiver<View>,
    // Ends the task.
    _task: DropGuard,
}

/// What a watcher sees.
#[derive(Clone, Debug)]
pub(crate) enum View {
    /// Nothing was read yet.
    Unread,
    /// What was read last, and whether it is watched now.
    Cell(Option<Cell>, bool),
    /// The watch has ended.
    Ended(Error),
}

impl WatchedCells {
    /// Watches a cell, together with all who watch it now.
    pub(crate) fn watch(
        &self,
        backend: &Arc<dyn Backend>,
        cleanup: &Cleanup,
        cell: &Address,
    ) -> Arc<Watched> {
        let mut watched = self.0.lock();
        if let Some(watched) = watched.get(cell).and_then(Weak::upgrade)
            && !watched.has_ended()
        {
            return watched;
        }
        watched.retain(|_, watched| watched.strong_count() > 0);
        let (task, end) = Task::new(Arc::clone(backend), cell.clone());
        let fresh = Arc::new(Watched { views: task.views.subscribe(), _task: end.clone().drop_guard() });
        cleanup.beside(async move {
            end.run_until_cancelled(task.work()).await;
        });
        watched.insert(cell.clone(), Arc::downgrade(&fresh));
        fresh
    }
}

impl Watched {
    /// What is seen now, and follows.
    pub(crate) fn views(&self) -> watch::Receiver<View> {
        self.views.clone()
    }

    fn has_ended(&self) -> bool {
        matches!(*self.views.borrow(), View::Ended(_))
    }
}

struct Task {
    backend: Arc<dyn Backend>,
    cell: Address,
    views: watch::Sender<View>,
    // The highest version that was read.
    last: u64,
}

impl Task {
    fn new(backend: Arc<dyn Backend>, cell: Address) -> (Self, CancellationToken) {
        let views = watch::Sender::new(View::Unread);
        (Self { backend, cell, views, last: 0 }, CancellationToken::new())
    }

    async fn work(mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(50), self.backend.lease().ttl() / 4);
        loop {
            let error = match self.follow(&mut backoff).await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            if !error.is_retryable() {
                self.views.send_replace(View::Ended(error));
                return;
            }
            tracing::debug!(cell = ?self.cell, %error, "the watch of a cell is made anew");
            self.views.send_if_modified(|view| match view {
                View::Cell(_, watched) => std::mem::take(watched),
                _ => false,
            });
            backoff.wait(self.backend.lease().clock()).await;
        }
    }

    /// Follows the cell until its watch fails.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<std::convert::Infallible> {
        let mut watch = self.backend.watch_cell(&self.cell);
        watch.changed().await?;
        loop {
            self.read().await?;
            backoff.reset();
            self.news(&mut *watch).await?;
        }
    }

    /// Waits for news, for one TTL.
    async fn news(&self, watch: &mut dyn ChangeWatch) -> Result<()> {
        let lease = self.backend.lease();
        let again = lease.clock().now() + lease.ttl();
        tokio::select! {
            news = watch.changed() => news,
            () = lease.clock().sleep_until(again) => Ok(()),
        }
    }

    async fn read(&mut self) -> Result<()> {
        let cell = self.backend.read_cell(&self.cell).await?;
        if let Some(cell) = &cell {
            let number = cell.version.number();
            if number < self.last {
                return Err(Error::lost(LostReason::Forgotten));
            }
            self.last = number;
        }
        self.views.send_if_modified(|view| match view {
            View::Cell(seen, true) if *seen == cell => false,
            view => {
                *view = View::Cell(cell, true);
                true
            }
        });
        Ok(())
    }
}
