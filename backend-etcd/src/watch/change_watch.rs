//! Watching a cell, or a queue that is observed.
//!
//! *Protocol.* The watch starts from now on, and the first answer is the server's creation of it.
//! Each event of the key, or of a key of the queue, is another. When the watch is over, as with its
//! stream, the key is read: that shows an outage or a lost permission, which the watch answers. Else
//! it starts anew, and its creation is an answer: something may have changed in the gap.
//!
//! *Why nothing is missed.* The server sends every event after the revision at which it has created
//! the watch, and a read after the creation sees all up to there. Events between two calls are kept
//! as one. Whatever changes a queue is an event of one of its keys: a join, a leave, a downgrade, new
//! data, and the end of a lease. An admission is none of its own, and follows one of these.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::ChangeWatch;
use latchwork_core::{Error, ErrorKind, Result};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::armed::Notify;
use super::watches::Watches;
use crate::driver::{Driver, EventKind};

/// A watch of one cell or queue. It does not keep the client alive.
#[derive(Debug)]
pub(crate) struct EtcdChangeWatch {
    // An error: an address that holds no such thing.
    of: Result<Watched>,
    driver: Driver,
    watches: Arc<Watches>,
    // Cancelled when the client is closed or dropped.
    closed: CancellationToken,
    armed: Option<Subscribed>,
}

/// What is watched for changes.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) key: String,
    /// Whether all keys with this prefix are watched.
    pub(crate) is_prefix: bool,
}

/// The watch that the server was asked for. Dropping it stops the watch on the server.
#[derive(Debug)]
struct Subscribed {
    news: watch::Receiver<()>,
    watches: Arc<Watches>,
    watch: i64,
    // The server has created it.
    created: bool,
}

impl EtcdChangeWatch {
    pub(crate) fn new(
        driver: Driver,
        watches: Arc<Watches>,
        closed: CancellationToken,
        of: Result<Watched>,
    ) -> Self {
        Self { of, driver, watches, closed, armed: None }
    }

    async fn next(&mut self) -> Result<()> {
        let of = self.of.as_ref().map_err(Clone::clone)?;
        loop {
            let armed = self.armed.get_or_insert_with(|| self.watches.changes(of));
            match armed.news(self.driver.request_timeout).await {
                Ok(true) => return Ok(()),
                Ok(false) => self.armed = None,
                Err(late) => {
                    self.armed = None;
                    return Err(late);
                }
            }
            self.driver.get(of.key.as_bytes()).await?;
        }
    }
}

impl Subscribed {
    /// Waits for news since the call before: a key was written or deleted, or the server has created the
    /// watch, for which it has this long. `false`: the watch is over, and may have missed something.
    async fn news(&mut self, within: Duration) -> Result<bool> {
        if self.created {
            return Ok(self.news.changed().await.is_ok());
        }
        let news = tokio::time::timeout(within, self.news.changed()).await;
        let late = |_| Error::new(ErrorKind::Unavailable, "the server did not create the watch in time");
        self.created = news.map_err(late)?.is_ok();
        Ok(self.created)
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        // It is the only subscriber.
        self.watches.unsubscribe(self.watch, 0);
    }
}

impl Watches {
    /// Watches for writes and deletions, from the creation of the watch on.
    fn changes(self: &Arc<Self>, of: &Watched) -> Subscribed {
        let (sender, news) = watch::channel(());
        let mut state = self.state.lock();
        // From now on: a start in the past is served late, and its reader reads after the creation.
        let watch = state.watch(of.key.as_bytes().into(), of.is_prefix, 0, EventKind::Both);
        let watch = self.arm(&mut state, watch, Notify::Change(sender));
        Subscribed { news, watches: Arc::clone(self), watch, created: false }
    }
}

#[async_trait]
impl ChangeWatch for EtcdChangeWatch {
    async fn changed(&mut self) -> Result<()> {
        let closed = self.closed.clone();
        closed.run_until_cancelled(self.next()).await.unwrap_or_else(|| Err(Error::closed()))
    }
}
