use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use super::own_node::OwnNode;
use super::queue_watch::{Notified, QueueWatch};
use crate::driver::{EventKind, Watch};

/// Boxed, because a client may hold thousands of nodes and has few waiters.
pub(super) enum ArmedWatch {
    OwnNode(Arc<OwnNode>, u64),
    Waiters(Box<Waiters>),
}

pub(super) struct Waiters {
    pub(super) watch: Watch,
    pub(super) notify: Notify,
}

pub(super) enum Notify {
    Shared(String, QueueWatch),
    One(oneshot::Sender<Notified>),
    // The single watcher of a cell or queue.
    Change(watch::Sender<()>),
}

impl Notify {
    /// From now on the waiters may miss an event.
    pub(super) fn end(self) {
        match self {
            Self::Shared(_, queue_watch) => queue_watch.end(),
            Self::One(sender) => {
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
