//! The ledger of one coordinator, and the waiters of its owners' acquisitions.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::ledger::{Entered, Generation, Ledger, Left, Mode, Progress};
use super::owner::Owner;
use crate::address::Address;
use crate::holding::Holding;

/// What one owner holds is known by both.
pub(crate) type OwnedKey = (Owner, Address);

/// The ledger of one coordinator.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    ledger: Mutex<Ledger<OwnedKey, Arc<Holding>>>,
    // An acquisition of any owner has ended, waits behind others, or is waited for no more.
    changed: Notify,
}

impl Owners {
    pub(super) fn enter(&self, key: &OwnedKey, mode: Mode) -> Entered<Arc<Holding>> {
        self.ledger.lock().enter(key, mode, is_lost)
    }

    /// Waits until something is found in what has become of an acquisition.
    pub(super) async fn until<T>(
        &self,
        key: &OwnedKey,
        generation: Generation,
        found: impl Fn(Progress<Arc<Holding>>) -> Option<T>,
    ) -> T {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = found(self.progress(key, generation)) {
                return found;
            }
            changed.await;
        }
    }

    pub(super) fn progress(&self, key: &OwnedKey, generation: Generation) -> Progress<Arc<Holding>> {
        self.ledger.lock().progress(key, generation)
    }

    pub(super) fn queued(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().queued(key, generation);
        self.changed.notify_waiters();
    }

    /// False: nobody waits for it any more.
    pub(super) fn acquired(&self, key: &OwnedKey, generation: Generation, node: Arc<Holding>) -> bool {
        let wanted = self.ledger.lock().acquired(key, generation, node);
        self.changed.notify_waiters();
        wanted
    }

    pub(super) fn gave_up(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().gave_up(key, generation);
        self.changed.notify_waiters();
    }

    pub(super) fn leave(&self, key: &OwnedKey, generation: Generation, mode: Mode) -> Left<Arc<Holding>> {
        let left = self.ledger.lock().leave(key, generation, mode);
        if matches!(left, Left::Unwanted) {
            self.changed.notify_waiters();
        }
        left
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
