//! Watching a cell.
//!
//! *Protocol.* The watch starts from now on, and the first answer is the server's creation of it.
//! Each event of the key is another. When the watch is over, as with its stream, the key is read:
//! that shows an outage or a lost permission, which the watch answers. Else it starts anew, and its
//! creation is an answer: something may have changed in the gap.
//!
//! *Why nothing is missed.* The server sends every event after the revision at which it has created
//! the watch, and a read after the creation sees all up to there. Events between two calls are kept
//! as one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::ChangeWatch;
use latchwork_core::{Error, ErrorKind, Result};
use tokio_util::sync::CancellationToken;

use crate::driver::Driver;
use crate::queue::context::NodeContext;
use crate::watch::{CellSubscription, Watches};

/// A watch of one cell. It does not keep the client alive.
pub(crate) struct EtcdCellWatch {
    key: String,
    driver: Driver,
    watches: Arc<Watches>,
    // Cancelled when the client is closed or dropped.
    closed: CancellationToken,
    armed: Option<Armed>,
}

/// The watch that the server was asked for.
struct Armed {
    subscription: CellSubscription,
    /// The server has created it.
    created: bool,
}

impl EtcdCellWatch {
    pub(crate) fn new(context: &NodeContext, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            driver: context.driver.clone(),
            watches: Arc::clone(&context.watches),
            closed: context.leases.closed().clone(),
            armed: None,
        }
    }

    async fn next(&mut self) -> Result<()> {
        loop {
            let armed = self
                .armed
                .get_or_insert_with(|| Armed { subscription: self.watches.cell(&self.key), created: false });
            match armed.news(self.driver.request_timeout()).await {
                Ok(true) => return Ok(()),
                Ok(false) => self.armed = None,
                Err(late) => {
                    self.armed = None;
                    return Err(late);
                }
            }
            self.driver.get(self.key.as_bytes()).await?;
        }
    }
}

impl Armed {
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
impl ChangeWatch for EtcdCellWatch {
    async fn changed(&mut self) -> Result<()> {
        let closed = self.closed.clone();
        closed.run_until_cancelled(self.next()).await.unwrap_or_else(|| Err(Error::closed()))
    }
}

impl fmt::Debug for EtcdCellWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdCellWatch")
            .field("key", &self.key)
            .field("created", &self.armed.as_ref().is_some_and(|armed| armed.created))
            .finish_non_exhaustive()
    }
}
