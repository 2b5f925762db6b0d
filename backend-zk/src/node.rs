//! One own node: how it is watched, marked and left.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::{Join, Node, NodeState};
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind, LostReason, Result};
use parking_lot::Mutex;

use crate::driver::{self, Stat};
use crate::error::Fault;
use crate::lease::Session;
use crate::limit;
use crate::nodes::{Site, View, delete, sequence};
use crate::wait::Armed;

/// Stands behind the label in the data of a node that is marked as admitted (permits, RULES B6).
const MARK: &[u8] = b"\0admitted";

/// How long a node is held before it is watched: arming shows what has happened by then.
const ARMED_AFTER: Duration = Duration::from_millis(5);

/// How long permits are held before the stored limit is watched.
const SHORT_HOLD: Duration = Duration::from_millis(100);

/// A node of this client.
pub(crate) struct ZkNode {
    pub(crate) session: Arc<Session>,
    pub(crate) site: Site,
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) claim: Claim,
    label: Arc<str>,
    pub(crate) state: NodeState,
    leaving: AtomicBool,
    entered: AtomicBool,
    // What the join saw: the first wait begins with it.
    pub(crate) first: Mutex<Option<View>>,
    me: Weak<ZkNode>,
}

/// A node's data without the mark, and whether it was there.
pub(crate) fn unmark(data: &[u8]) -> (&[u8], bool) {
    match data.strip_suffix(MARK) {
        Some(label) => (label, true),
        None => (data, false),
    }
}

impl ZkNode {
    /// The client's side of a node that a join has made.
    pub(crate) fn new(
        session: &Arc<Session>,
        site: Site,
        name: String,
        stat: &Stat,
        join: &Join,
    ) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            session: Arc::clone(session),
            path: format!("{}/{name}", site.path),
            name,
            claim: join.claim,
            label: Arc::clone(&join.label),
            state: NodeState::new(session.lease().clone(), sequence(stat)),
            leaving: AtomicBool::new(false),
            entered: AtomicBool::new(false),
            first: Mutex::default(),
            me: me.clone(),
            site,
        })
    }

    /// The node is admitted as the listing says; it is, if the lease is not lost by now (RULES B1).
    /// `limit` is the one that counted, for permits.
    pub(crate) fn enter(&self, mark: bool, own: Option<Armed>, limit: u32) -> Result<()> {
        if let Some(reason) = self.state.lost() {
            return Err(Error::lost(reason));
        }
        if self.entered.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        if mark {
            tokio::spawn(mark_admitted(self.me.clone()));
        }
        let limit = (self.site.limit.is_some() && !mark).then_some(limit);
        tokio::spawn(guard(self.me.clone(), own, limit));
        Ok(())
    }

    /// Leaves, within the join that made the node: where that is not confirmed, the join's outcome is unknown.
    pub(crate) async fn take_back(&self) -> Result<()> {
        self.leave().await.map_err(|error| {
            Error::new(ErrorKind::Unknown, "its node could not be taken back").because(error)
        })
    }

    pub(crate) fn has_entered(&self) -> bool {
        self.entered.load(Ordering::Acquire)
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Acquire)
    }

    /// The node was seen to be gone from the server (NODE-GONE).
    pub(crate) fn removed(&self) {
        if !self.is_leaving() {
            self.state.gone(LostReason::Revoked);
        }
    }
}

/// Watches an admitted node, and tells its owner when somebody else removes it. Armed by a request of its own
/// that nobody waits for, and that a hold as short as a few round trips does without; one that the wait has armed is
/// taken over. Marks a holder of permits when `limit` changes.
async fn guard(node: Weak<ZkNode>, mut own: Option<Armed>, limit: Option<u32>) {
    // Boxed where it is large and not always there: this future lives as long as the hold.
    let limit = limit.map(|limit| Box::pin(mark_when_limit_changes(node.clone(), limit)));
    let mut limit = pin!(async {
        if let Some(marked) = limit {
            marked.await;
        }
        std::future::pending::<()>().await;
    });
    if own.is_none() {
        tokio::time::sleep(ARMED_AFTER).await;
        if node.upgrade().is_none_or(|node| node.is_leaving()) {
            return;
        }
    }
    loop {
        let mut armed = match own.take() {
            Some(armed) => armed,
            None => match Box::pin(arm_own(&node)).await {
                Some(armed) => armed,
                None => return,
            },
        };
        let event = tokio::select! {
            biased;
            event = &mut armed => event,
            () = &mut limit => return,
        };
        match event {
            driver::Event::Deleted => {
                if let Some(node) = node.upgrade() {
                    node.removed();
                }
                return;
            }
            // Its data were written (a mark; a peer's wish for revocation): watched on.
            driver::Event::Changed => {}
            // The lease tells of that.
            driver::Event::SessionOver => return,
        }
    }
}

/// Arms the watch on an own node; `None` where there is nothing more to watch.
async fn arm_own(node: &Weak<ZkNode>) -> Option<Armed> {
    loop {
        let node = node.upgrade()?;
        match node.session.driver.watch(&node.path).await {
            Ok((_, _, watch)) => return Some(Box::pin(watch.event())),
            Err(Fault::NoNode) => {
                node.removed();
                return None;
            }
            Err(fault) if fault.is_transient() => node.session.driver.recovered().await.ok()?,
            Err(fault) => {
                tracing::debug!(?fault, path = node.path, "an own node cannot be watched");
                return None;
            }
        }
    }
}

/// Marks the own node once the stored limit is not what it was at the admission: those behind cannot tell from the
/// sums who is in then (RULES B6b).
async fn mark_when_limit_changes(node: Weak<ZkNode>, limit: u32) {
    // A short hold costs no watch; one that is armed late sees the change in the read that arms it.
    tokio::time::sleep(SHORT_HOLD).await;
    loop {
        let Some(held) = node.upgrade() else { return };
        let Some(path) = &held.site.limit else { return };
        let watch = match held.session.driver.watch(path).await {
            Ok((data, _, watch)) if limit::parse(&data).is_ok_and(|stored| stored == limit) => watch,
            Ok(_) | Err(Fault::NoNode) => break,
            Err(fault) if fault.is_transient() && held.session.driver.recovered().await.is_ok() => continue,
            Err(_) => return,
        };
        // Not kept alive by its own watch.
        drop(held);
        watch.event().await;
    }
    mark_admitted(node).await;
}

/// Marks the own node, so that the next one knows that it is the head: until it is confirmed (RULES B7).
async fn mark_admitted(node: Weak<ZkNode>) {
    while let Some(node) = node.upgrade() {
        let data = [node.label.as_bytes(), MARK].concat();
        match node.session.driver.write(&node.path, &data).await {
            Err(fault) if fault.is_transient() => {
                if node.session.driver.recovered().await.is_err() {
                    return;
                }
            }
            // Written; or gone, which the next one sees as well; or refused for good.
            _ => return,
        }
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

    async fn leave(&self) -> Result<()> {
        // Before the request is sent: the deletion is not somebody else's hand then.
        self.leaving.store(true, Ordering::Release);
        match delete(&self.session, &self.path).await {
            Ok(()) => Ok(()),
            // It goes with the session.
            Err(Fault::Gone) => self.session.over().map(drop).ok_or_else(Error::closed),
            Err(fault) => Err(fault.error("leave")),
        }
    }
}

impl fmt::Debug for ZkNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkNode").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}
