//! One own node: how it enters, turns from writer to reader, and leaves.
//!
//! # A writer turns reader
//!
//! One multi makes `_c_<id>-__READ__<N>` and deletes `_c_<id>-__WRIT__<N>`: the same counter, and so the same place
//! (RULES B12). It is what core's chain model explores as ZooKeeper's downgrade: a deletion, which wakes those behind,
//! who list again and find a reader where the writer was. The writer's sequence number goes along in the data.
//!
//! No listing is asked how a request of unknown outcome ended (B8), since only the two names matter, and only a multi
//! that still finds the writer makes the reader. Repeated, it meets its own reader, or finds neither: revoked. A leave
//! deletes the writer first and then the reader: a multi that comes between or behind makes nothing, and one that came
//! before is undone.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use latchwork_core::contracts::{Join, Leave, Node, NodeKeeper, NodeState};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, Kind, LostReason, Result};
use parking_lot::Mutex;

use crate::driver::{Connection, Stat};
use crate::error::Fault;
use crate::guard::{Guard, mark_admitted};
use crate::history::Birth;
use crate::lease::Session;
use crate::limit::Limit;
use crate::names::{as_reader, id_of};
use crate::nodes::{Site, View, overtaken};
use crate::tags::{sequence, turned};
use crate::wait::Armed;

/// How far a writer has come in turning into a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is what it was made as.
    None,
    /// It was asked for: it may be either.
    Asked,
    /// It is a reader.
    Done,
}

/// How a node came to be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// By what the queue showed.
    Seen,
    /// So, and its mark is to tell somebody who follows (RULES B6).
    Marked,
    /// By a release that was told: looked at later, if the hold lasts.
    Told,
}

impl Entry {
    pub(crate) fn of(mark: bool) -> Self {
        if mark { Entry::Marked } else { Entry::Seen }
    }
}

/// What its join knows of the queue: the first wait begins with it.
pub(crate) enum First {
    View(Box<View>),
    /// This path is the one right ahead of it, and watched; on the connection as it was before, where that is the own session's.
    Behind(String, Armed, Option<Connection>),
}

/// A node of this client.
pub(crate) struct ZkNode {
    pub(crate) session: Arc<Session>,
    /// As it was made; see [`paths`](Self::paths) for a writer that turns reader. The one text that a held node keeps:
    /// its queue and its name are parts of it.
    pub(crate) path: Box<str>,
    pub(crate) kind: Kind,
    /// The stored limit's node, for permits.
    pub(crate) limit: Option<Box<str>>,
    pub(crate) claim: Claim,
    pub(crate) label: Arc<str>,
    pub(crate) state: NodeKeeper,
    joined: i64,
    // Its id is free for the next when its leave is confirmed: no request of its join is still on its way.
    frees_id: AtomicBool,
    left: OnceLock<Leave>,
    turn: Mutex<Turn>,
    leaving: AtomicBool,
    entered: AtomicBool,
    // Releases of its queue's nodes are told, and believed.
    tells: bool,
    crowded: AtomicBool,
    pub(crate) first: Mutex<Option<First>>,
    me: Weak<ZkNode>,
}

impl ZkNode {
    /// The client's side of a node that a join has made.
    pub(crate) fn new(
        session: &Arc<Session>,
        site: &Site,
        path: &str,
        stat: &Stat,
        join: &Join,
    ) -> Arc<Self> {
        session.seen.fetch_max(stat.czxid, Ordering::AcqRel);
        Arc::new_cyclic(|me| Self {
            session: Arc::clone(session),
            path: path.into(),
            kind: site.kind,
            limit: site.limit.as_deref().map(Into::into),
            claim: join.claim,
            label: Arc::clone(&join.label),
            state: NodeKeeper::new(session.lease().clone(), sequence(stat)),
            joined: stat.ctime,
            frees_id: AtomicBool::new(!join.repeated),
            left: OnceLock::new(),
            turn: Mutex::new(Turn::None),
            leaving: AtomicBool::new(false),
            entered: AtomicBool::new(false),
            tells: site.kind == Kind::Mutex && !join.queue.is_exact() && session.trust.believes_told,
            crowded: AtomicBool::new(false),
            first: Mutex::default(),
            me: me.clone(),
        })
    }

    /// The path of its queue.
    pub(crate) fn queue(&self) -> &str {
        self.split().0
    }

    /// Its name in its queue.
    pub(crate) fn name(&self) -> &str {
        self.split().1
    }

    /// The path of the node of this name in its queue.
    pub(crate) fn beside(&self, name: &str) -> String {
        format!("{}/{name}", self.queue())
    }

    fn split(&self) -> (&str, &str) {
        self.path.rsplit_once('/').expect("a path, as the driver made it")
    }

    /// The node is admitted as the listing says; it is, if the lease is not lost by now (RULES B1).
    /// `limit` is the one that counted, for permits.
    pub(crate) fn enter(&self, entry: Entry, own: Option<Armed>, limit: Limit) -> Result<()> {
        if let Some(reason) = self.state.lost() {
            return Err(Error::lost(reason));
        }
        if self.entered.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let mark = entry == Entry::Marked;
        if mark {
            self.session.runtime.spawn(mark_admitted(self.me.clone()));
        }
        let limit = (self.limit.is_some() && !mark).then_some(limit);
        self.session.guards.add(Guard { node: self.me.clone(), own, limit, told: entry == Entry::Told });
        Ok(())
    }

    /// Leaves, within the join that made the node: where that is not confirmed, the join's outcome is unknown. The attempt may
    /// come back, so its id is not free.
    pub(crate) async fn take_back(&self) -> Result<()> {
        self.frees_id.store(false, Ordering::Release);
        self.leave().await.map(drop).map_err(|error| {
            Error::new(ErrorKind::Unknown, "its node could not be taken back").because(error)
        })
    }

    pub(crate) fn has_entered(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }

    /// By what the release of the node of this name in its queue is told.
    pub(crate) fn released_path(&self, name: &str) -> Option<String> {
        self.tells.then(|| self.session.settings.released_path(name))
    }

    /// Several were ahead of it, so that whoever follows may wait for more than its release, if that is not told.
    pub(crate) fn crowded(&self) {
        self.crowded.store(true, Ordering::Release);
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    pub(crate) fn turn(&self) -> Turn {
        *self.turn.lock()
    }

    /// The paths of which one is the node's, in the order in which they are to be asked: once the writer is gone, no
    /// reader comes any more.
    pub(crate) fn paths(&self, turn: Turn) -> Vec<String> {
        let writer = (turn != Turn::Done).then(|| self.path.to_string());
        let reader = (turn != Turn::None).then(|| as_reader(self.name())).flatten();
        writer.into_iter().chain(reader.map(|name| self.beside(&name))).collect()
    }

    /// The node was seen to be gone from the server (NODE-GONE).
    pub(crate) fn removed(&self) {
        if !self.is_leaving() {
            self.state.gone(LostReason::Revoked);
        }
    }

    /// The same, seen by a wait. Not when another wait has ended it: the node may have turned reader since.
    pub(crate) fn removed_while_waiting(&self) {
        if !self.has_entered() {
            self.removed();
        }
    }

    fn no_writer(&self) -> Error {
        let why = "only a held write lock can be downgraded";
        self.state.lost().map_or_else(|| Error::new(ErrorKind::NotHeld, why), Error::lost)
    }
}

#[async_trait]
impl Node for ZkNode {
    fn state(&self) -> &NodeState {
        &self.state
    }

    async fn admitted(&self) -> Result<()> {
        self.wait().await
    }

    async fn leave(&self) -> Result<Leave> {
        // The path may be another's by now: ids are used again, and a counter begins anew with its directory.
        if let Some(left) = self.left.get() {
            return Ok(*left);
        }
        // Before the request is sent: the deletion is not somebody else's hand then.
        self.leaving.store(true, Ordering::Release);
        // And before this look: a downgrade that begins behind it sees that we leave.
        let paths = self.paths(self.turn());
        // By the first leave only: one whose request has no answer takes the id with it.
        let id = self.frees_id.swap(false, Ordering::AcqRel).then(|| id_of(self.name())).flatten();
        let driver = &self.session.driver;
        let tells = self.has_entered() && self.crowded.load(Ordering::Acquire);
        let released = if tells { self.released_path(self.name()) } else { None };
        let told = match released {
            Some(released) => driver.tell_and_delete(&released, &self.path).await,
            None => Ok(false),
        };
        let left = match told {
            Ok(true) => Ok(true),
            // What has no answer is asked again; it may have been carried out.
            Err(fault) if fault.is_transient() || matches!(fault, Fault::Gone) => Err(fault),
            // It was not there, or may not be told: it leaves all the same, and whoever follows lists.
            Ok(false) | Err(_) => driver.delete_all(&paths).await,
        };
        match left {
            Ok(was_there) => {
                let left = *self.left.get_or_init(|| Leave::of(was_there));
                if let Some(id) = id {
                    self.session.names.free(self.queue(), id);
                }
                if self.claim == Claim::Exclusive && self.has_entered() {
                    let birth = Birth::of(self.kind, self.name(), self.state.sequence());
                    let now = self.state.lease().clock().now();
                    if let Some(birth) = birth {
                        self.session.history.left(self.kind, self.queue(), birth, now);
                    }
                }
                Ok(left)
            }
            // It goes with the session.
            Err(Fault::Gone) => self.session.over().map(Leave::Absent).ok_or_else(Error::closed),
            Err(fault) => Err(fault.error("leave")),
        }
    }

    async fn downgrade(&self) -> Result<()> {
        let Some(reader) = as_reader(self.name()).filter(|_| self.has_entered()) else {
            return Err(self.no_writer());
        };
        {
            let mut turn = self.turn.lock();
            if self.is_leaving() || self.state.lost().is_some() {
                return Err(self.no_writer());
            }
            match *turn {
                Turn::Done => return Ok(()),
                // Before the request is sent: the deletion is not somebody else's hand then.
                Turn::None | Turn::Asked => *turn = Turn::Asked,
            }
        }
        let data = turned(&self.label, self.state.sequence(), self.joined);
        match self.session.driver.replace(&self.path, &self.beside(&reader), &data).await {
            // There already: an earlier request was carried out.
            Ok(()) | Err(Fault::NodeExists) => {
                *self.turn.lock() = Turn::Done;
                Ok(())
            }
            Err(Fault::NoNode) => {
                self.removed();
                Err(self.no_writer())
            }
            Err(fault) => Err(overtaken(&self.session, fault, "downgrade")),
        }
    }
}

impl fmt::Debug for ZkNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkNode").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}
