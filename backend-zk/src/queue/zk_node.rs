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

#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) data: Arc<[u8]>,
    /// Set before the mark is written.
    pub(crate) is_marked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DowngradeState {
    None,
    /// The node may be a writer or a reader.
    Asked,
    Done,
}

#[derive(Clone, Debug)]
pub(crate) struct Listing {
    pub(crate) contenders: Contenders,
    pub(crate) limit: WrittenLimit,
}

pub(crate) enum FirstLook {
    Listing(Listing),
    Behind(KnownPredecessor),
}

pub(crate) struct ZkNode {
    pub(crate) session: Arc<Session>,
    /// The path at its creation. Queue and name are parts of this text, which saves memory for held nodes.
    pub(crate) path: Box<str>,
    pub(crate) kind: Kind,
    pub(crate) limit: Option<Box<str>>,
    pub(crate) claim: Claim,
    pub(crate) label: Arc<str>,
    pub(super) layout: DataLayout,
    /// Locked by each task that writes the node.
    pub(super) contents: tokio::sync::Mutex<Contents>,
    pub(crate) state: NodeWriter,
    pub(super) joined: i64,
    /// No request of the join is under way, so the confirmed leave frees the id.
    pub(super) frees_id: AtomicBool,
    pub(super) left: OnceLock<Leave>,
    pub(super) downgrade: Mutex<DowngradeState>,
    // Boxed, because only a waiter has one.
    pub(super) first_look: Mutex<Option<Box<FirstLook>>>,
    pub(super) me: Weak<ZkNode>,
    leaving: AtomicBool,
    entered: AtomicBool,
    contended: AtomicBool,
    announces: bool,
}

impl ZkNode {
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

    pub(crate) fn driver(&self) -> &Driver {
        &self.session.driver
    }

    pub(crate) fn queue(&self) -> &str {
        split(&self.path).0
    }

    pub(crate) fn name(&self) -> &str {
        split(&self.path).1
    }

    pub(crate) fn beside(&self, name: &str) -> String {
        in_directory(self.queue(), name)
    }

    /// Only permits depend on later contenders.
    pub(crate) fn contenders(&self, children: Vec<String>) -> Contenders {
        match self.claim {
            Claim::Permits(_) => Contenders::read(self.kind, children),
            Claim::Exclusive | Claim::Shared => Contenders::read_up_to(self.name(), self.kind, children),
        }
    }

    pub(crate) fn released_path(&self, name: &str) -> Option<String> {
        self.announces.then(|| released_path(&self.session.settings.namespace, name))
    }

    /// Several nodes were ahead, so the next node may wait for more than this node's release, unless
    /// announced.
    pub(super) fn set_contended(&self) {
        self.contended.store(true, Ordering::Release);
    }

    pub(crate) fn is_contended(&self) -> bool {
        self.contended.load(Ordering::Acquire)
    }

    pub(crate) fn has_entered(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }

    pub(super) fn set_entered(&self) -> bool {
        self.entered.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(super) fn set_leaving(&self) {
        self.leaving.store(true, Ordering::Release);
    }

    pub(crate) fn may_be_downgraded(&self) -> bool {
        *self.downgrade.lock() != DowngradeState::None
    }

    /// In the order in which to check them: once the writer's path is gone, no reader can be created from it.
    pub(crate) fn paths(&self) -> Vec<String> {
        let state = *self.downgrade.lock();
        let writer = (state != DowngradeState::Done).then(|| self.path.to_string());
        let reader = (state != DowngradeState::None).then(|| as_reader(self.name())).flatten();
        writer.into_iter().chain(reader.map(|name| self.beside(&name))).collect()
    }

    /// Runs `ask` at each path until it finds the node.
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
            // A downgrade in between may have moved the node.
            if self.paths() == paths {
                return Ok(None);
            }
        }
    }

    pub(crate) fn removed(&self) {
        if !self.is_leaving() {
            self.state.gone(LostReason::Revoked);
        }
    }

    /// Does nothing after an admission by another wait, which a downgrade may have followed.
    pub(crate) fn removed_while_waiting(&self) {
        if !self.has_entered() {
            self.removed();
        }
    }

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
