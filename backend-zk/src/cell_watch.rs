//! The watch of a cell.
//!
//! One request asks for the cell's stat and arms a watch, which reports one event: the next
//! creation, write or deletion. A change between two events is no loss, since the watch is armed
//! again *before* an event is answered: a read behind the answer shows all that came until then, and
//! the new watch reports what comes later (WATCH-ORDER).
//!
//! The client crate sets watches again on a new connection, and the server then reports what they
//! missed. It cannot report a cell that was made and deleted in between. So a new connection, or a
//! new session, is a gap: the watch is armed again, and answers.
//!
//! Where a session watches as much as it can, the watch is on one of the [watch
//! sessions](crate::queue::WatchSessions), as a wait's is. Reads come behind a `sync`, so they do not
//! lag behind its events.

use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use latchwork_core::contracts::ChangeWatch;
use latchwork_core::{Address, Error, Result};

use crate::client::Client;
use crate::driver::Connection;
use crate::error::Fault;
use crate::layout::CellPaths;
use crate::queue::Session;
use crate::watch::Armed;

pub(crate) struct ZkCellWatch {
    // Weak: a watch does not keep the client of a dead handle alive.
    client: Weak<Client>,
    cell: Address,
    armed: Option<ArmedCell>,
}

/// An armed watch. Dropping it removes it from the server.
struct ArmedCell {
    event: Armed,
    // The connection on which it was armed.
    connection: Connection,
    session: Arc<Session>,
}

impl ArmedCell {
    /// Waits until the cell may have changed, or until that cannot be told any more.
    async fn may_have_changed(&mut self) {
        tokio::select! {
            _ = &mut self.event => {}
            () = self.connection.ended() => {}
            _ = self.session.writer().until_lost() => {}
        }
    }
}

impl ZkCellWatch {
    pub(crate) fn new(client: &Arc<Client>, cell: Address) -> Self {
        Self { client: Arc::downgrade(client), cell, armed: None }
    }
}

/// Arms a watch on the session that there is now.
async fn arm(client: Weak<Client>, path: String) -> Result<ArmedCell> {
    loop {
        let client = client.upgrade().ok_or_else(Error::closed)?;
        let session = client.session().await?;
        drop(client);
        let watcher = session.fast_path.watcher(&session.driver, [path.as_str()]).await;
        // Before the watch is armed, so that no break goes unnoticed.
        let connection = watcher.connection();
        let watch = watcher.watch_changes(&path).await;
        drop(watcher);
        match watch {
            Ok(watch) => return Ok(ArmedCell { event: Box::pin(watch.event()), connection, session }),
            // With the lease lost, the next session is another one, or the client is closed.
            Err(Fault::SessionOver) if session.lease.over().is_some() => {}
            Err(Fault::SessionOver) => return Err(Error::closed()),
            Err(fault) => return Err(fault.error_without_trace("watch a cell")),
        }
    }
}

#[async_trait]
impl ChangeWatch for ZkCellWatch {
    async fn changed(&mut self) -> Result<()> {
        if let Some(armed) = &mut self.armed {
            armed.may_have_changed().await;
        }
        // Where this is given up, the next call arms anew, and answers.
        self.armed = None;
        let path = CellPaths::of(&self.cell)?.cell;
        self.armed = Some(arm(Weak::clone(&self.client), path).await?);
        Ok(())
    }
}

impl fmt::Debug for ZkCellWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkCellWatch")
            .field("cell", &self.cell)
            .field("armed", &self.armed.is_some())
            .finish_non_exhaustive()
    }
}
