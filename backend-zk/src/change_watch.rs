//! The watch of a cell or a queue.
//!
//! A request reads a cell's stat and arms a watch on it. For a queue, the listing of the names arms a second
//! watch, on the directory's children, in the same trip.
//!
//! *No change is lost* (WATCH-ORDER). The watch is armed again *before* an event is reported, so a read after
//! that shows all earlier changes. A new connection or session counts as a change, because it cannot report a
//! node that was created and deleted in between. A watch beyond the session's budget is on a [watch
//! session](crate::queue::WatchSessions), and the read that follows begins with a `sync`.
//!
//! *Why not one persistent recursive watch for a queue.* Servers before 3.6 close the connection at this
//! request. The client crate does not set such watches again on a new connection, and buffers their events
//! without a bound.

use std::fmt;
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use latchwork_core::backend::ChangeWatch;
use latchwork_core::{Address, Error, Result};

use crate::client::Client;
use crate::driver::{Armed, Connection, Watch};
use crate::error::Fault;
use crate::layout::{CellPaths, QueuePaths};
use crate::queue::Session;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched {
    Cell,
    Queue,
}

pub(crate) struct ZkChangeWatch {
    client: Weak<Client>,
    watched: Watched,
    address: Address,
    armed: Option<ArmedWatch>,
}

/// Dropping it removes it from the server.
struct ArmedWatch {
    event: Armed,
    connection: Connection,
    session: Arc<Session>,
}

impl ArmedWatch {
    /// Also returns when changes may be missed.
    async fn may_have_changed(&mut self) {
        tokio::select! {
            _ = &mut self.event => {}
            () = self.connection.ended() => {}
            _ = self.session.writer().until_lost() => {}
        }
    }
}

impl ZkChangeWatch {
    pub(crate) fn new(client: &Arc<Client>, watched: Watched, address: &Address) -> Self {
        Self { client: Arc::downgrade(client), watched, address: address.clone(), armed: None }
    }
}

async fn arm(client: Weak<Client>, watched: Watched, address: Address) -> Result<ArmedWatch> {
    let (path, times, what) = match watched {
        Watched::Cell => (CellPaths::of(&address)?.cell, 1, "watch a cell"),
        Watched::Queue => (QueuePaths::of(&address)?.directory, 2, "watch a queue"),
    };
    loop {
        let client = client.upgrade().ok_or_else(Error::closed)?;
        let session = client.session().await?;
        drop(client);
        // The path counts once for each watch.
        let paths = std::iter::repeat_n(path.as_str(), times);
        let watcher = session.fast_path.watcher(&session.driver, paths).await;
        // Taken before the watch, so that no break goes unnoticed.
        let connection = watcher.connection();
        let armed = match watched {
            Watched::Cell => watcher.watch_changes(&path).await.map(Watch::boxed),
            Watched::Queue => watcher.watch_directory(&path).await.map(either),
        };
        drop(watcher);
        match armed {
            Ok(event) => return Ok(ArmedWatch { event, connection, session }),
            // The next call uses a new session, unless the client is closed.
            Err(Fault::SessionOver) if session.lease.over().is_some() => {}
            Err(Fault::SessionOver) => return Err(Error::closed()),
            Err(fault) => return Err(fault.error_without_trace(what)),
        }
    }
}

fn either((own, children): (Watch, Option<Watch>)) -> Armed {
    let Some(children) = children else { return own.boxed() };
    Box::pin(async move {
        tokio::select! {
            event = own.event() => event,
            event = children.event() => event,
        }
    })
}

#[async_trait]
impl ChangeWatch for ZkChangeWatch {
    async fn changed(&mut self) -> Result<()> {
        if let Some(armed) = &mut self.armed {
            armed.may_have_changed().await;
        }
        // A dropped future makes the next call report a change.
        self.armed = None;
        self.armed = Some(arm(Weak::clone(&self.client), self.watched, self.address.clone()).await?);
        Ok(())
    }
}

impl fmt::Debug for ZkChangeWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkChangeWatch")
            .field("watched", &self.watched)
            .field("address", &self.address)
            .field("armed", &self.armed.is_some())
            .finish_non_exhaustive()
    }
}
