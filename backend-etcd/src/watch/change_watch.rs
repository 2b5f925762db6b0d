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

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::ChangeWatch;
use latchwork_core::{Error, ErrorKind, Result};
use tokio_util::sync::CancellationToken;

use super::change::{ChangeSubscription, Watched};
use super::watches::Watches;
use crate::driver::Driver;

/// A watch of one cell or queue. It does not keep the client alive.
pub(crate) struct EtcdChangeWatch {
    // An error: an address that holds no such thing.
    of: Result<Watched>,
    driver: Driver,
    watches: Arc<Watches>,
    // Cancelled when the client is closed or dropped.
    closed: CancellationToken,
    armed: Option<Subscribed>,
}

/// The watch that the server was asked for.
struct Subscribed {
    subscription: ChangeSubscription,
    /// The server has created it.
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
            let armed = self
                .armed
                .get_or_insert_with(|| Subscribed { subscription: self.watches.changes(of), created: false });
            match armed.news(self.driver.request_timeout()).await {
                Ok(true) => return Ok(()),
                Ok(false) => self.armed = None,
                Err(late) => {
                    self.armed = None;
                    return Err(late);
                }
            }
            self.driver.get(of.key().as_bytes()).await?;
        }
    }
}

impl Subscribed {
    /// Waits for news; `false` when the watch is over. The server has this long to create it.
    async fn news(&mut self, within: Duration) -> Result<bool> {
        if self.created {
            return Ok(self.subscription.news().await);
        }
        let news = tokio::time::timeout(within, self.subscription.news()).await;
        let late = |_| Error::new(ErrorKind::Unavailable, "the server has not made a watch in time");
        self.created = news.map_err(late)?;
        Ok(self.created)
    }
}

#[async_trait]
impl ChangeWatch for EtcdChangeWatch {
    async fn changed(&mut self) -> Result<()> {
        let closed = self.closed.clone();
        closed.run_until_cancelled(self.next()).await.unwrap_or_else(|| Err(Error::closed()))
    }
}

impl fmt::Debug for EtcdChangeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdChangeWatch")
            .field("of", &self.of)
            .field("created", &self.armed.as_ref().is_some_and(|armed| armed.created))
            .finish_non_exhaustive()
    }
}
