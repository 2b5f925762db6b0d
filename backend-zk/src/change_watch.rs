//! The watch of a cell or a queue.
//!
//! A cell is one node. One request reads its stat and arms a watch, which reports one event: the
//! next creation, write or deletion. A queue is a directory. Such a watch reports its creation, its
//! deletion and the writes that announce [new data](crate::queue). The listing of the names, in the
//! same trip, arms a second watch on the directory's children.
//!
//! A change between two events is not lost, because the watch is armed again *before* an event is
//! reported: a read after that shows all earlier changes, and the new watch reports later ones
//! (WATCH-ORDER).
//!
//! The client crate sets watches again on a new connection, and the server then reports missed
//! events. It cannot report a node that was created and deleted in between. So a new connection or
//! a new session is a gap: the watch is armed again, and reports a change.
//!
//! If the session has no budget for more watches, the watch is on one of the [watch
//! sessions](crate::queue::WatchSessions), like the watch of a waiter. A read of a cell and a
//! listing of a queue follow a `sync`, so they are not older than the event.
//!
//! # Why not one persistent recursive watch for a queue
//!
//! Servers support such watches from 3.6 on. An older server closes the connection when it gets
//! this request. The client crate does not set them again on a new connection, and buffers their
//! events without a bound while no task reads them. Arming the two watches again costs one trip: a
//! stat, and the names of the queue, some 60 bytes each. The listing by the watcher then reads the
//! names once more, and the data of all nodes. So arming is the smaller part of the cost of an
//! event, and a server keeps two watches for each watcher, for any number of nodes.

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

/// The subject of a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Watched {
    Cell,
    Queue,
}

pub(crate) struct ZkChangeWatch {
    // Weak: a watch does not keep the client of a dead handle alive.
    client: Weak<Client>,
    watched: Watched,
    address: Address,
    armed: Option<ArmedWatch>,
}

/// An armed watch. Dropping it removes it from the server.
struct ArmedWatch {
    event: Armed,
    // The connection on which it was armed.
    connection: Connection,
    session: Arc<Session>,
}

impl ArmedWatch {
    /// Waits until the subject may have changed, or until changes can be missed.
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

/// Arms a watch on the current session.
async fn arm(client: Weak<Client>, watched: Watched, address: Address) -> Result<ArmedWatch> {
    let (path, times, what) = match watched {
        Watched::Cell => (CellPaths::of(&address)?.cell, 1, "watch a cell"),
        Watched::Queue => (QueuePaths::of(&address)?.directory, 2, "watch a queue"),
    };
    loop {
        let client = client.upgrade().ok_or_else(Error::closed)?;
        let session = client.session().await?;
        drop(client);
        // The path counts once for each watch on it.
        let paths = std::iter::repeat_n(path.as_str(), times);
        let watcher = session.fast_path.watcher(&session.driver, paths).await;
        // Before the watch is armed, so that no break goes unnoticed.
        let connection = watcher.connection();
        let armed = match watched {
            Watched::Cell => watcher.watch_changes(&path).await.map(Watch::boxed),
            Watched::Queue => watcher.watch_directory(&path).await.map(either),
        };
        drop(watcher);
        match armed {
            Ok(event) => return Ok(ArmedWatch { event, connection, session }),
            // The lease is lost: the next call uses a new session, unless the client is closed.
            Err(Fault::SessionOver) if session.lease.over().is_some() => {}
            Err(Fault::SessionOver) => return Err(Error::closed()),
            Err(fault) => return Err(fault.error_without_trace(what)),
        }
    }
}

/// The first event of the watches on a directory.
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
        // If this future is dropped, the next call arms the watch again and reports a change.
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
