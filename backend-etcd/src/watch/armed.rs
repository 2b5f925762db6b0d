//! What is watched, and why.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use latchwork_core::contracts::NodeKeeper;
use tokio::sync::{Notify, oneshot};

use crate::feed::{Feed, Seen};
use crate::terms::{Found, Only, Watch};

/// An own node on the server.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) key: Arc<[u8]>,
    pub(crate) state: NodeKeeper,
    /// Told when it is given back, where somebody waits for that: of permits.
    pub(crate) left: Option<Box<Notify>>,
}

impl Own {
    /// The prefix of its queue: its key is that and a name without a slash.
    pub(crate) fn queue(&self) -> &str {
        queue_of(std::str::from_utf8(&self.key).unwrap_or_default()).unwrap_or_default()
    }

    /// Whether this read of its key has found this very node.
    pub(crate) fn is_in(&self, read: &Found) -> bool {
        read.entries.first().is_some_and(|entry| entry.created == self.state.sequence())
    }

    /// Waits until it is given back.
    pub(crate) async fn given_back(&self) {
        match &self.left {
            Some(left) => left.notified().await,
            None => std::future::pending().await,
        }
    }
}

/// The prefix of the queue in which a key of this name would be.
pub(super) fn queue_of(name: &str) -> Option<&str> {
    name.rfind('/').map(|slash| &name[..=slash])
}

/// A watch that the server was asked for. A client may hold thousands of nodes, and waits for few: so theirs is kept short.
pub(super) enum Armed {
    // Of its key's removal after a revision that is less than this one.
    Own(Arc<Own>, u64),
    Wait(Box<Wait>),
}

pub(super) struct Wait {
    pub(super) watch: Watch,
    pub(super) of: Of,
}

pub(super) enum Of {
    // By its name among the feeds.
    Feed(String, Feed),
    Key(oneshot::Sender<Seen>),
}

impl Of {
    /// The watch is over: whoever waits for what it would have told looks.
    pub(super) fn end(self) {
        match self {
            Self::Feed(_, feed) => feed.end(),
            Self::Key(sender) => {
                // Nobody listens any more: its wait was dropped.
                let _ = sender.send(Seen::Look);
            }
        }
    }
}

impl Armed {
    pub(super) fn watch(&self, id: i64) -> Watch {
        match self {
            Self::Own(node, from) => {
                Watch { id, key: Arc::clone(&node.key), prefix: false, from: *from, only: Only::Deletes }
            }
            Self::Wait(wait) => wait.watch.clone(),
        }
    }
}

/// An own node, by its key.
pub(super) struct Mine(pub(super) Arc<Own>);

impl Borrow<[u8]> for Mine {
    fn borrow(&self) -> &[u8] {
        &self.0.key
    }
}

impl PartialEq for Mine {
    fn eq(&self, other: &Self) -> bool {
        self.0.key == other.0.key
    }
}

impl Eq for Mine {}

impl Hash for Mine {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key.hash(state);
    }
}
