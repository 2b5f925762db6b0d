//! The ledger of one coordinator, and the waiters of its owners' acquisitions.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::ledger::{Entered, Generation, Ledger, Left, Mode};
use super::owner::Owner;
use crate::address::Address;
use crate::holding::Holding;

/// What one owner holds is known by both.
pub(crate) type OwnedKey = (Owner, Address);

/// The ledger of one coordinator.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    ledger: Mutex<Ledger<OwnedKey, Arc<Holding>>>,
    changed: Notify,
}

impl Owners {
    /// Becomes ready when an acquisition of any owner has ended, or waits behind others. To be enabled before [`enter`](Owners::enter).
    pub(super) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(super) fn enter(&self, key: &OwnedKey, mode: Mode) -> Entered<Arc<Holding>> {
        self.ledger.lock().enter(key, mode, is_lost)
    }

    pub(super) fn queued(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().queued(key, generation);
        self.changed.notify_waiters();
    }

    pub(super) fn acquired(&self, key: &OwnedKey, generation: Generation, mode: Mode, node: Arc<Holding>) {
        self.ledger.lock().acquired(key, generation, mode, node);
        self.changed.notify_waiters();
    }

    pub(super) fn gave_up(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().gave_up(key, generation);
        self.changed.notify_waiters();
    }

    pub(super) fn leave(&self, key: &OwnedKey, generation: Generation, mode: Mode) -> Left<Arc<Holding>> {
        self.ledger.lock().leave(key, generation, mode)
    }

    pub(super) fn convert(&self, key: &OwnedKey, generation: Generation) -> Left<Arc<Holding>> {
        self.ledger.lock().convert(key, generation)
    }

    /// How often an owner holds a key now.
    pub(crate) fn count(&self, key: &OwnedKey) -> usize {
        self.ledger.lock().count(key, is_lost)
    }
}

fn is_lost(node: &Arc<Holding>) -> bool {
    node.tenure.check().is_err()
}
