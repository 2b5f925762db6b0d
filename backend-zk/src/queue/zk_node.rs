//! The state of one own node.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use latchwork_core::backend::{Join, Leave, NodeWriter};
use latchwork_core::{Claim, Kind, LostReason};
use parking_lot::Mutex;

use super::created::KnownPredecessor;
use super::limit::WrittenLimit;
use super::session::Session;
use crate::driver::{Armed, Driver, Stat};
use crate::error::{Answer, if_there};
use crate::layout::{
    Contenders, DataLayout, QueuePaths, as_reader, in_directory, released_path, sequence, split,
};

/// The content of this client's node, in addition to the label.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) data: Arc<[u8]>,
    /// The node is marked as admitted, or will be.
    pub(crate) is_marked: bool,
}

/// How far the downgrade of a writer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DowngradeState {
    /// The node has its original claim.
    None,
    /// The request was sent: the node may be a writer or a reader.
    Asked,
    /// The node is a reader.
    Done,
}

/// A listing of a queue, with the limit that counts for it.
#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) contenders: Contenders,
    pub(crate) limit: WrittenLimit,
}

/// The part of the queue that a join has seen. The first wait begins with it.
pub(crate) enum FirstLook {
    Listing(Listing),
    Behind(KnownPredecessor),
}

/// A node of this client.
pub(crate) struct ZkNode {
    pub(crate) session: Arc<Session>,
    /// The path of its creation. To save memory, a held node keeps only this text: queue and name
    /// are parts of it.
    pub(crate) path: Box<str>,
    pub(crate) kind: Kind,
    /// The node of the stored limit, for permits.
    pub(crate) limit: Option<Box<str>>,
    pub(crate) claim: Claim,
    pub(crate) label: Arc<str>,
    pub(super) layout: DataLayout,
    /// Locked by each task that writes the node.
    pub(super) contents: tokio::sync::Mutex<Contents>,
    pub(crate) state: NodeWriter,
    /// The time of its creation, by the server's clock, in milliseconds.
    pub(super) joined: i64,
    /// Whether its id can be reused after its confirmed leave, because no request of its join is
    /// still under way.
    pub(super) frees_id: AtomicBool,
    /// The confirmed leave.
    pub(super) left: OnceLock<Leave>,
    pub(super) downgrade: Mutex<DowngradeState>,
    // Boxed: only a waiter has one.
    pub(super) first_look: Mutex<Option<Box<FirstLook>>>,
    pub(super) me: Weak<ZkNode>,
    leaving: AtomicBool,
    entered: AtomicBool,
    contended: AtomicBool,
    announces: bool,
}

impl ZkNode {
    /// The client's side of a node that a join has created.
    pub(super) fn new(
        session: &Arc<Session>,
        queue: &QueuePaths,
        path: &str,
        stat: &Stat,
        join: &Join,
    ) -> Arc<Self> {
        session.lease.saw(stat.czxid);
        Arc::new_cyclic(|me| Self {
            session: Arc::clone(session),
            path: path.into(),
            kind: queue.kind,
            limit: queue.limit.as_deref().map(Into::into),
            claim: join.claim,
            label: Arc::clone(&join.label),
            layout: queue.data,
            contents: Contents { data: Arc::clone(&join.data), is_marked: false }.into(),
            state: NodeWriter::new(session.writer().clone(), sequence(stat.czxid)),
            joined: stat.ctime,
            frees_id: AtomicBool::new(!join.repeated),
            left: OnceLock::new(),
            downgrade: Mutex::new(DowngradeState::None),
            first_look: Mutex::default(),
            me: me.clone(),
            leaving: AtomicBool::new(false),
            entered: AtomicBool::new(false),
            contended: AtomicBool::new(false),
            announces: session.fast_path.announces(queue.kind, join.queue.is_exact()),
        })
    }

    /// The session of the node.
    pub(crate) fn driver(&self) -> &Driver {
        &self.session.driver
    }

    /// The path of its queue.
    pub(crate) fn queue(&self) -> &str {
        split(&self.path).0
    }

    /// Its name in its queue.
    pub(crate) fn name(&self) -> &str {
        split(&self.path).1
    }

    /// The path of the node of this name in its queue.
    pub(crate) fn beside(&self, name: &str) -> String {
        in_directory(self.queue(), name)
    }

    /// The contenders that count for this node. Only permits depend on later contenders
    /// (CHAIN-PERMITS-HEAD-AND-MARKS).
    pub(crate) fn contenders(&self, children: Vec<String>) -> Contenders {
        match self.claim {
            Claim::Permits(_) => Contenders::read(self.kind, children),
            Claim::Exclusive | Claim::Shared => Contenders::read_up_to(self.name(), self.kind, children),
        }
    }

    /// The path that announces the release of the node with this name, if releases are announced.
    pub(crate) fn released_path(&self, name: &str) -> Option<String> {
        self.announces.then(|| released_path(&self.session.settings.namespace, name))
    }

    /// Records that several nodes were ahead. So the next node may wait for more than this node's
    /// release, unless the release is announced.
    pub(super) fn set_contended(&self) {
        self.contended.store(true, Ordering::Release);
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Acquire)
    }

    /// Whether the node was admitted.
    pub(crate) fn has_entered(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }

    /// Records the admission. Returns whether the node was admitted before.
    pub(super) fn set_entered(&self) -> bool {
        self.entered.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(super) fn set_leaving(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    /// Whether the node may have left its first path by its downgrade.
    pub(crate) fn may_be_downgraded(&self) -> bool {
        *self.downgrade.lock() != DowngradeState::None
    }

    /// All paths that the node may have, in the order in which to check them: when the writer's
    /// path is gone, no reader can be created from it any more.
    pub(crate) fn paths(&self) -> Vec<String> {
        let state = *self.downgrade.lock();
        let writer = (state != DowngradeState::Done).then(|| self.path.to_string());
        let reader = (state != DowngradeState::None).then(|| as_reader(self.name())).flatten();
        writer.into_iter().chain(reader.map(|name| self.beside(&name))).collect()
    }

    /// Returns the result of `ask` at the first path where it finds the node. `None`: the node is
    /// at no path.
    pub(crate) async fn at_any_path<T, E, F>(&self, ask: impl Fn(String) -> F) -> Result<Option<T>, E>
    where
        F: Future<Output = Result<Option<T>, E>>,
    {
        loop {
            let paths = self.paths();
            for path in paths.clone() {
                if let Some(found) = ask(path).await? {
                    return Ok(Some(found));
                }
            }
            // A downgrade that began in between may have given the node another path.
            if self.paths() == paths {
                return Ok(None);
            }
        }
    }

    /// Records that the node is gone from the server (NODE-GONE).
    pub(crate) fn removed(&self) {
        if !self.is_leaving() {
            self.state.gone(LostReason::Revoked);
        }
    }

    /// The same for a wait. Another wait may have been admitted, and the node downgraded, since
    /// then.
    pub(crate) fn removed_while_waiting(&self) {
        if !self.has_entered() {
            self.removed();
        }
    }

    /// Arms the watch of a wait on this node, unless it is armed.
    pub(crate) async fn arm_own(&self, own: &mut Option<Armed>) -> Answer<()> {
        if own.is_none() {
            match if_there(self.driver().watch(&self.path).await)? {
                Some((_, _, watch)) => *own = Some(watch.boxed()),
                None => self.removed_while_waiting(),
            }
        }
        Ok(())
    }
}
