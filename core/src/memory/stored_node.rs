use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Join, NodeId, NodeWriter};

pub(super) type LeaseId = u64;

/// A node that the store shares with its client, so wake-ups and losses need no message.
#[derive(Debug)]
pub(super) struct StoredNode {
    pub(super) queue: Address,
    pub(super) id: NodeId,
    pub(super) lease: LeaseId,
    pub(super) label: Arc<str>,
    pub(super) data: Mutex<Arc<[u8]>>,
    pub(super) joined: Moment,
    /// A second join was sent, so the leave must write a tombstone.
    pub(super) repeated: AtomicBool,
    /// The node's own leave has removed it, even if its answer was lost.
    pub(super) removed: AtomicBool,
    pub(super) state: NodeWriter,
    pub(super) woken: Notify,
}

impl StoredNode {
    pub(super) fn new(join: &Join, lease: LeaseId, state: NodeWriter) -> Self {
        Self {
            queue: join.queue.clone(),
            id: join.id,
            lease,
            label: Arc::clone(&join.label),
            data: Mutex::new(Arc::clone(&join.data)),
            joined: state.lease().clock().now(),
            repeated: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            state,
            woken: Notify::new(),
        }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.state.sequence()
    }
}
