use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;

use super::ended::{Ended, HoldState};
use crate::address::Address;
use crate::contracts::{LeaseState, Node};
use crate::error::{Error, ErrorKind, Result};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientId(u64);

impl ClientId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// One guard's time on a node, shared with the guard's `lost()` handles and state streams. The release of the
/// guard ends it, also if other guards of its owner still hold the node. After that, a handle keeps neither
/// the node nor its client alive.
pub(crate) struct Tenure {
    pub(crate) queue: Address,
    pub(crate) client: ClientId,
    // `None` after the end.
    node: Mutex<Option<Arc<dyn Node>>>,
    // Set before the node is dropped: the node's notification announces it.
    ended: OnceLock<Ended>,
}

impl Tenure {
    pub(crate) fn new(client: ClientId, queue: Address, node: Arc<dyn Node>) -> Arc<Self> {
        Arc::new(Self { queue, client, node: Mutex::new(Some(node)), ended: OnceLock::new() })
    }

    pub(crate) fn node(&self) -> Option<Arc<dyn Node>> {
        self.node.lock().clone()
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.ended().map_or(Ok(()), |ended| Err(ended.error().because_of(self.why()).on(self.queue.name())))
    }

    /// Returns on which side it was lost, for a hold over two coordinators.
    pub(crate) fn lost_on(&self) -> Option<String> {
        self.node()?.state().lease().lost_on().map(str::to_owned)
    }

    fn why(&self) -> Option<Error> {
        let (place, reason) = (self.lost_on()?, self.ended()?.lost()?);
        Some(Error::new(ErrorKind::Lost(reason), format!("the lease was lost on {place}")))
    }

    pub(crate) fn ended(&self) -> Option<Ended> {
        match self.node() {
            Some(node) => node.state().lost().map(Ended::Lost),
            None => self.by_its_owner(),
        }
    }

    pub(crate) fn state(&self) -> HoldState {
        match self.node() {
            Some(node) => node.state().state().into(),
            None => HoldState::Ended(self.by_its_owner().unwrap_or(Ended::Released)),
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        let Some(node) = self.node() else { return Duration::ZERO };
        let (state, now) = (node.state(), node.state().lease().clock().now());
        match state.lost() {
            None => state.valid_until().min(state.fixed_end()).since(now),
            Some(_) => Duration::ZERO,
        }
    }

    /// Returns how the holder ended it, if it did.
    pub(crate) fn by_its_owner(&self) -> Option<Ended> {
        self.ended.get().copied()
    }

    /// Ends it for the holder. Returns whether this was the first call.
    pub(crate) fn end(&self) -> bool {
        let Some(node) = self.node() else { return false };
        let ended = node.state().lost().map_or(Ended::Released, Ended::Lost);
        let first = self.ended.set(ended).is_ok();
        self.node.lock().take();
        node.state().notify();
        first
    }

    pub(crate) async fn until_ended(&self) {
        if let Some(node) = self.node() {
            node.state().until(|| self.by_its_owner().map(drop)).await;
        }
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tenure")
            .field("queue", &self.queue)
            .field("node", &self.node().map(|node| format!("{:?}", node.state())))
            .field("ended", &self.ended)
            .finish()
    }
}

pub(super) async fn until_ended(tenure: &Tenure) {
    if let Some(node) = tenure.node() {
        tokio::select! {
            () = tenure.until_ended() => {}
            _ = node.state().until_lost() => {}
        }
    }
}

/// Waits until the state differs from `seen`, or the holder has ended it.
pub(super) async fn one_changed(tenure: &Tenure, seen: HoldState) {
    let seen = match seen {
        HoldState::Held => LeaseState::Live,
        HoldState::Suspended => LeaseState::Suspended,
        HoldState::Ended(Ended::Lost(reason)) => LeaseState::Lost(reason),
        HoldState::Ended(Ended::Released) => return,
    };
    if let Some(node) = tenure.node() {
        tokio::select! {
            () = tenure.until_ended() => {}
            _ = node.state().changed(seen) => {}
        }
    }
}
