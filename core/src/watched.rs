//! One watch on the server for all watchers of a cell or a queue in one client.
//!
//! *Protocol.* A task watches the cell or the queue. It reads the state after each notification, at least
//! once a TTL because notifications can be lost (WATCH-ORDER), and a cell with a time to idle twice within
//! this time. All watchers share the last read. After an outage the task makes a new watch and reads again.
//! It ends with the last watcher.
//!
//! *Why nothing is missed.* The watch is armed before each read. Versions of a cell and sequence numbers of a
//! queue rise for ever, so a lower number shows that the server lost its data: the watch ends as `Forgotten`.
//! So does a missing cell, if the server was restarted or replaced since, or has forgotten the lease of the
//! client.

mod cell;
mod queue;

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

pub(crate) use cell::CellReader;
pub(crate) use queue::{QueueReader, list_all, list_behind};

use crate::address::Address;
use crate::by_address::ByAddress;
use crate::cleanup::Cleanup;
use crate::contracts::{Backend, ChangeWatch};
use crate::error::{Error, Result};
use crate::seen::Rechecks;
use crate::support::{Backoff, Pauses};

/// Watches and reads one kind of state. It remembers the highest number, which shows a loss of data.
pub(crate) trait Reader: Default + Send + Sync + 'static {
    type State: Clone + PartialEq + fmt::Debug + Send + Sync;

    fn watch(backend: &dyn Backend, address: &Address) -> Box<dyn ChangeWatch>;

    /// Reads the state at the address.
    ///
    /// # Errors
    /// * `Lost` (`Forgotten`): the state is older than at an earlier read.
    /// * The errors of the backend.
    fn read(
        &mut self,
        backend: &dyn Backend,
        address: &Address,
    ) -> impl Future<Output = Result<Self::State>> + Send;

    /// Returns the time within which the state must be read again, so that it stays; at most `ttl`.
    fn again_within(&self, ttl: Duration) -> Duration {
        ttl
    }
}

#[derive(Debug)]
pub(crate) struct Watches<R: Reader> {
    watched: Mutex<ByAddress<Watched<R::State>>>,
    rechecks: Arc<Rechecks>,
    closing: CancellationToken,
}

/// One cell or queue, as the task sees it.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    views: watch::Receiver<View<S>>,
    _task: DropGuard,
}

#[derive(Clone, Debug)]
pub(crate) enum View<S> {
    Unread,
    /// The last read, and whether the watch on the server works now.
    Read(S, bool),
    Ended(Error),
}

impl<R: Reader> Watches<R> {
    pub(crate) fn new(rechecks: &Arc<Rechecks>, closing: &CancellationToken) -> Self {
        Self { watched: Mutex::default(), rechecks: Arc::clone(rechecks), closing: closing.clone() }
    }

    pub(crate) fn watch(
        &self,
        backend: &Arc<dyn Backend>,
        cleanup: &Cleanup,
        address: &Address,
    ) -> Arc<Watched<R::State>> {
        let mut watches = self.watched.lock();
        if let Some(watched) = watches.get(address)
            && !watched.has_ended()
        {
            return watched;
        }
        let (task, end) =
            WatchTask::<R>::new(Arc::clone(backend), address.clone(), Arc::clone(&self.rechecks));
        let fresh = Arc::new(Watched { views: task.views.subscribe(), _task: end.clone().drop_guard() });
        let closing = self.closing.clone();
        cleanup.beside(async move {
            end.run_until_cancelled(task.work(closing)).await;
        });
        watches.insert(address.clone(), &fresh);
        fresh
    }
}

impl<S> Watched<S> {
    pub(crate) fn views(&self) -> watch::Receiver<View<S>> {
        self.views.clone()
    }

    fn has_ended(&self) -> bool {
        matches!(*self.views.borrow(), View::Ended(_))
    }
}

struct WatchTask<R: Reader> {
    backend: Arc<dyn Backend>,
    address: Address,
    views: watch::Sender<View<R::State>>,
    reader: R,
    rechecks: Arc<Rechecks>,
}

impl<R: Reader> WatchTask<R> {
    fn new(
        backend: Arc<dyn Backend>,
        address: Address,
        rechecks: Arc<Rechecks>,
    ) -> (Self, CancellationToken) {
        let (views, reader) = (watch::Sender::new(View::Unread), R::default());
        (Self { backend, address, views, reader, rechecks }, CancellationToken::new())
    }

    async fn work(mut self, closing: CancellationToken) {
        let mut backoff = Backoff::new(Pauses::of_watch(self.backend.lease().ttl()));
        loop {
            let error = match self.follow(&mut backoff).await {
                Ok(never) => match never {},
                Err(error) => error,
            };
            if !error.may_pass() {
                self.views.send_replace(View::Ended(error));
                return;
            }
            tracing::debug!(address = ?self.address, %error, "a watch failed and is made again");
            self.views.send_if_modified(|view| match view {
                View::Read(_, watched) => std::mem::take(watched),
                _ => false,
            });
            // Between two watches of the backend there is no watch that a close would end (WATCH-END).
            let lease = self.backend.lease();
            if closing.run_until_cancelled(backoff.wait(lease.clock())).await.is_none() {
                self.views.send_replace(View::Ended(Error::closed()));
                return;
            }
        }
    }

    /// Follows the state at the address until its watch fails.
    async fn follow(&mut self, backoff: &mut Backoff) -> Result<Infallible> {
        let mut watch = R::watch(&*self.backend, &self.address);
        watch.changed().await?;
        let mut told = true;
        loop {
            if self.read().await? && !told {
                self.rechecks.found_change();
            }
            backoff.reset();
            told = self.news(&mut *watch).await?;
        }
    }

    /// Waits for a notification, until the state must be read again. Returns whether there was one.
    async fn news(&self, watch: &mut dyn ChangeWatch) -> Result<bool> {
        let lease = self.backend.lease();
        let again = lease.clock().now() + self.reader.again_within(lease.ttl());
        tokio::select! {
            news = watch.changed() => news.map(|()| true),
            () = lease.clock().sleep_until(again) => Ok(false),
        }
    }

    async fn read(&mut self) -> Result<bool> {
        let state = self.reader.read(&*self.backend, &self.address).await?;
        Ok(self.views.send_if_modified(|view| match view {
            View::Read(seen, true) if *seen == state => false,
            view => {
                *view = View::Read(state, true);
                true
            }
        }))
    }
}
