//! A node, as the store keeps it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Join, NodeId, NodeWriter};

/// Names a client's lease in a store.
pub(super) type LeaseId = u64;

/// The store and the client share it, so that the store reports wake-ups and losses without a
/// message.
#[derive(Debug)]
pub(super) struct StoredNode {
    pub(super) queue: Address,
    pub(super) id: NodeId,
    pub(super) lease: LeaseId,
    pub(super) label: Arc<str>,
    pub(super) data: Mutex<Arc<[u8]>>,
    pub(super) joined: Moment,
    /// A request of its join may still be on its way: it must meet a tombstone.
    pub(super) repeated: AtomicBool,
    /// Its own leave has removed it, with or without an answer.
    pub(super) removed: AtomicBool,
    pub(super) state: NodeWriter,
    /// Notified when the node is to look again. One that does not wait just now looks when it does.
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
