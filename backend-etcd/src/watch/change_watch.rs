//! Watching a cell or an observed queue.
//!
//! The creation of the watch by the server, and each event, is an answer. When the watch ends, the key is
//! read, which shows an outage or a lost permission. Otherwise the watch starts again.
//!
//! *Why no change is missed.* The server sends every event after the creation of the watch, and a read after
//! the creation sees all earlier changes. Every change of a queue is an event of one of its keys; an
//! admission follows such an event.

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

#[derive(Debug)]
pub(crate) struct EtcdChangeWatch {
    // An error: the address cannot have such a cell or queue.
    of: Result<Watched>,
    driver: Driver,
    watches: Arc<Watches>,
    closed: CancellationToken,
    armed: Option<Subscribed>,
}

#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) key: String,
    pub(crate) is_prefix: bool,
}

#[derive(Debug)]
struct Subscribed {
    news: watch::Receiver<()>,
    watches: Arc<Watches>,
    watch: i64,
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
    /// Waits for a change since the last call. The creation by the server counts too, and must happen
    /// `within` this time. `false`: the watch has ended, and may have missed a change.
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
        self.watches.unsubscribe(self.watch, 0);
    }
}

impl Watches {
    fn changes(self: &Arc<Self>, of: &Watched) -> Subscribed {
        let (sender, news) = watch::channel(());
        let mut state = self.state.lock();
        // A start in the past is served late, and the reader reads after the creation.
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
