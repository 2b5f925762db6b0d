//! A watch that was requested from the server, and its purpose.

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::own_node::OwnNode;
use super::queue_watch::{Notified, QueueWatch};
use crate::driver::{EventKind, Watch};

/// A watch that was requested from the server. A client may hold thousands of nodes and has few
/// waiters, so the watch of a waiter is boxed.
pub(super) enum ArmedWatch {
    // Watches for the deletion of the node's key, from this revision on.
    OwnNode(Arc<OwnNode>, u64),
    Waiters(Box<Waiters>),
}

pub(super) struct Waiters {
    pub(super) watch: Watch,
    pub(super) notify: Notify,
}

/// The waiters that a watch notifies.
pub(super) enum Notify {
    // All waiters that share the watch with this name.
    Shared(String, QueueWatch),
    One(oneshot::Sender<Notified>),
    // The single watcher of a cell or queue: notified of the creation of the watch and of each
    // change. Dropping the sender ends the watch.
    Change(watch::Sender<()>),
}

impl Notify {
    /// Ends the watch: its waiters may miss an event from now on.
    pub(super) fn end(self) {
        match self {
            Self::Shared(_, queue_watch) => queue_watch.end(),
            Self::One(sender) => {
                // A failed send: the wait was dropped.
                let _ = sender.send(Notified::Missed);
            }
            Self::Change(news) => drop(news),
        }
    }
}

impl ArmedWatch {
    pub(super) fn watch(&self, id: i64) -> Watch {
        match self {
            Self::OwnNode(node, from) => {
                Watch { id, key: Arc::clone(&node.key), prefix: false, from: *from, only: EventKind::Deletes }
            }
            Self::Waiters(waiters) => waiters.watch.clone(),
        }
    }
}
