//! The ledger of one coordinator, and the waiters of its owners' acquisitions.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::ledger::{Entered, Generation, Ledger, Left};
use super::owner::Owner;
use crate::address::Address;
use crate::hold::Hold;
use crate::recipes::MutexGuard;

/// What one owner holds is known by both.
pub(crate) type OwnedKey = (Owner, Address);

type Shared = Arc<MutexGuard>;

/// The ledger of one coordinator.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    ledger: Mutex<Ledger<OwnedKey, Shared>>,
    changed: Notify,
}

impl Owners {
    /// Becomes ready when an acquisition of any owner has ended. To be enabled before [`enter`](Owners::enter).
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    pub(crate) fn enter(&self, key: &OwnedKey) -> Entered<Shared> {
        self.ledger.lock().enter(key, |hold| !hold.is_held())
    }

    pub(crate) fn acquired(&self, key: &OwnedKey, generation: Generation, hold: Shared) {
        self.ledger.lock().acquired(key, generation, hold);
        self.changed.notify_waiters();
    }

    pub(crate) fn gave_up(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().gave_up(key, generation);
        self.changed.notify_waiters();
    }

    pub(crate) fn leave(&self, key: &OwnedKey, generation: Generation) -> Left<Shared> {
        self.ledger.lock().leave(key, generation)
    }

    pub(crate) fn count(&self, key: &OwnedKey) -> usize {
        self.ledger.lock().count(key)
    }
}
