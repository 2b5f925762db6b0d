use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use latchwork_core::backend::{NodeId, NodeWriter};
use latchwork_core::{Claim, Error, LostReason, Result};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::context::NodeContext;
use super::data;
use super::fast_path::{FastWait, Handover, Successor};
use super::list::Listing;
use super::mark::{MarkWhen, mark_in_background};
use crate::driver::{Op, Txn};
use crate::error::Failure;
use crate::layout::{DataPlace, NodeData, Queue, beside};
use crate::watch::OwnNode;

/// A client may have thousands of holds, so an admission drops the state that only a waiter needs.
pub(crate) struct EtcdNode {
    pub(crate) context: Arc<NodeContext>,
    pub(crate) own: Arc<OwnNode>,
    pub(crate) data: NodeData,
    pub(crate) lease: i64,
    pub(super) place: DataPlace,
    pub(super) has_beside: AtomicBool,
    pub(super) name: Mutex<NodeName>,
    // `None`: a hold that leaves without a release notice.
    phase: Mutex<Option<Box<Phase>>>,
}

enum Phase {
    Waiting(Arc<Waiting>),
    Held(Handover),
}

// Another word would need the allocator's next size: measured, 130 bytes more for each hold, of a budget of
// 1,024.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<EtcdNode>() <= 104);

pub(crate) struct Waiting {
    pub(crate) queue: Queue,
    pub(crate) limit: AtomicU32,
    pub(crate) fast_path: Option<FastWait>,
    listing: Mutex<Option<Listing>>,
}

/// Which node may use the name of a node's key next.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeName {
    /// The next node, after the confirmed first leave.
    Lent(NodeId),
    /// The next node may have it already: a leave was sent.
    Left,
    /// No other node: a request of the join may be under way, and must find the tombstone that a leave writes
    /// (CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
    Repeated(NodeId),
}

impl Waiting {
    pub(crate) fn take_listing(&self) -> Option<Listing> {
        self.listing.lock().take()
    }
}

impl EtcdNode {
    pub(super) fn register(of: &Attempt<'_>, name: NodeName, sequence: u64) -> Arc<Self> {
        let state = NodeWriter::new(of.session.lease.clone(), sequence);
        let left = of.data.is_of_permits().then(CancellationToken::new);
        let own = Arc::new(OwnNode { key: of.own.as_bytes().into(), state, left });
        of.session.created(&own.key, sequence);
        of.context.watches.register(Arc::clone(&own));
        Arc::new(Self {
            context: Arc::clone(of.context),
            own,
            data: of.data.clone(),
            lease: of.session.id,
            place: of.place(),
            has_beside: AtomicBool::new(data::is_beside(of.place(), &of.join.data)),
            name: Mutex::new(name),
            phase: Mutex::default(),
        })
    }

    pub(crate) fn wait_in(&self, queue: Queue, limit: u32, listing: Option<Listing>) {
        let fast_path = self.context.fast_path.then(|| FastWait::new(&queue, listing.as_ref()));
        let limit = AtomicU32::new(limit);
        let waiting = Waiting { queue, limit, fast_path, listing: Mutex::new(listing) };
        *self.phase.lock() = Some(Box::new(Phase::Waiting(Arc::new(waiting))));
    }

    pub(crate) fn waiting(&self) -> Option<Arc<Waiting>> {
        match self.phase.lock().as_deref() {
            Some(Phase::Waiting(waiting)) => Some(Arc::clone(waiting)),
            Some(Phase::Held(_)) | None => None,
        }
    }

    /// `mark`: a successor waits for the mark. `successors`: the known nodes after this one.
    pub(crate) fn admit(&self, queue: &Queue, mark: bool, revision: u64, successors: Vec<Successor>) {
        {
            let mut phase = self.phase.lock();
            let handover = match phase.as_deref() {
                Some(Phase::Waiting(waiting)) => {
                    waiting.fast_path.as_ref().and_then(|fast| fast.admitted(queue, successors))
                }
                Some(Phase::Held(_)) | None => None,
            };
            *phase = handover.map(|handover| Box::new(Phase::Held(handover)));
        }
        self.context.watches.watch_own(&self.own);
        if self.data.is_of_permits() {
            let marked = NodeData { marked: true, ..self.data.clone() };
            let write = self.put(key(&self.own), self.rewritten(&marked));
            let when = match mark {
                true => MarkWhen::Now,
                false => MarkWhen::LimitChanges(queue.limit.clone(), revision),
            };
            mark_in_background(&self.context, &self.own, write, when);
        }
    }

    pub(super) fn handover(&self) -> Option<Handover> {
        match self.phase.lock().as_deref()? {
            Phase::Waiting(waiting) => waiting.fast_path.as_ref()?.given_up(&waiting.queue),
            Phase::Held(handover) if self.own.state.lost().is_some() => Some(handover.clone().of_lost()),
            Phase::Held(handover) => Some(handover.clone()),
        }
    }

    pub(crate) async fn downgrade(&self) -> Result<()> {
        let shared = NodeData { claim: Claim::Shared, ..self.data.clone() };
        self.put_while_there(key(&self.own), self.rewritten(&shared)).await
    }

    pub(crate) async fn replace_data(&self, data: &[u8]) -> Result<()> {
        let (key, value) = match self.place {
            DataPlace::Beside => {
                // Before the send: a write without an answer may have been carried out.
                self.has_beside.store(true, Ordering::Release);
                (beside(&self.own.key), data.to_vec())
            }
            place => (self.own.key.to_vec(), place.value(&self.data, data)),
        };
        self.put_while_there(String::from_utf8_lossy(&key).into_owned(), value).await
    }

    /// A put after a leave must not create a node (CHAIN-MARK-GUARDED).
    async fn put_while_there(&self, key: String, value: Vec<u8>) -> Result<()> {
        self.check_lost()?;
        let put = self.put(key, value);
        match self.context.driver.txn(Txn::when(self.own.exists(), vec![put])).await {
            Ok(result) if result.succeeded => Ok(()),
            Ok(_) => Err(self.not_there().await),
            Err(Failure::LeaseGone) => Err(self.lease_gone().await),
            Err(failure) => Err(failure.of_write()),
        }
    }

    pub(crate) async fn lease_gone(&self) -> Error {
        self.context.leases.gone(self.own.state.lease_writer()).await;
        self.lost()
    }

    /// Another client has removed the node, unless this client has left.
    pub(crate) async fn not_there(&self) -> Error {
        if self.context.watches.is_own(&self.own) {
            self.own.state.gone(self.why_gone().await);
        }
        self.lost()
    }

    fn lost(&self) -> Error {
        Error::lost(self.own.state.lost().unwrap_or(LostReason::Revoked))
    }

    fn put(&self, key: String, value: Vec<u8>) -> Op {
        Op::Put { key, value, lease: self.lease }
    }

    fn rewritten(&self, node: &NodeData) -> Vec<u8> {
        debug_assert_eq!(self.place, DataPlace::Beside);
        self.place.value(node, b"")
    }

    pub(super) fn keys(&self) -> Vec<Vec<u8>> {
        data::keys(&self.own.key, self.has_beside.load(Ordering::Acquire))
    }

    pub(crate) async fn why_gone(&self) -> LostReason {
        self.context.driver.why_gone(&self.own.key, self.own.state.sequence()).await
    }

    pub(crate) fn check_lost(&self) -> Result<()> {
        match self.own.state.lost() {
            Some(reason) => Err(Error::lost(reason)),
            None => Ok(()),
        }
    }
}

fn key(own: &OwnNode) -> String {
    String::from_utf8_lossy(&own.key).into_owned()
}

impl fmt::Debug for EtcdNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdNode").field("key", &key(&self.own)).field("state", &self.own.state).finish()
    }
}
