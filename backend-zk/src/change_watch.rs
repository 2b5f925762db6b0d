//! The watch of a cell or a queue.
//!
//! A cell is one node, and one request asks for its stat and arms a watch, which reports one event:
//! the next creation, write or deletion. A queue is a directory: one such watch, for its creation,
//! its end and the writes that tell of [new data](crate::queue), and beside it, in the same trip, one
//! on its children, which the listing of their names arms.
//!
//! A change between two events is no loss, since the watch is armed again *before* an event is
//! answered: a read behind the answer shows all that came until then, and the new watch reports what
//! comes later (WATCH-ORDER).
//!
//! The client crate sets watches again on a new connection, and the server then reports what they
//! missed. It cannot report what was made and deleted in between. So a new connection, or a new
//! session, is a gap: the watch is armed again, and answers.
//!
//! Where a session watches as much as it can, the watch is on one of the [watch
//! sessions](crate::queue::WatchSessions), as a wait's is. A read of a cell, and a listing of a queue,
//! come behind a `sync`, so they do not lag behind its events.
//!
//! # Why not one persistent recursive watch for a queue
//!
//! Servers have those from 3.6 on; an older one answers the unknown request with the end of the
//! connection. The client crate does not set them again on a new connection, and collects their
//! events without a bound while nobody asks. What is armed again for each answer costs one trip: a
//! stat, and the names of the queue, some 60 bytes each. The listing that a watcher makes then costs
//! the names once more, and all that the nodes hold. So the re-arming is the smaller part of the cost
//! of an event, and a server keeps two watches for each watcher, however many nodes there are.

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

/// What is watched.
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
    /// Waits until something may have changed, or until that cannot be told any more.
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

/// Arms a watch on the session that there is now.
async fn arm(client: Weak<Client>, watched: Watched, address: Address) -> Result<ArmedWatch> {
    let (path, times, what) = match watched {
        Watched::Cell => (CellPaths::of(&address)?.cell, 1, "watch a cell"),
        Watched::Queue => (QueuePaths::of(&address)?.directory, 2, "watch a queue"),
    };
    loop {
        let client = client.upgrade().ok_or_else(Error::closed)?;
        let session = client.session().await?;
        drop(client);
        // As often as it is watched.
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
            // With the lease lost, the next session is another one, or the client is closed.
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
        // Where this is given up, the next call arms anew, and answers.
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
