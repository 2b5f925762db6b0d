use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::ledger::{Entrant, Generation, Ledger, Left, Mode, Progress};
use super::owner::Owner;
use crate::address::Address;
use crate::client::Client;
use crate::held_node::HeldNode;
use crate::until::until;

pub(crate) type OwnedKey = (Owner, Address);

pub(crate) struct Owners {
    client: Arc<Client>,
    ledger: Mutex<Ledger<OwnedKey, Arc<HeldNode>>>,
    // Notified when any acquisition of an owner ends, waits in the queue, or becomes unwanted.
    changed: Notify,
}

impl Owners {
    pub(crate) fn new(client: Arc<Client>) -> Self {
        Self { client, ledger: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(super) fn enter(&self, key: &OwnedKey, mode: Mode) -> Entrant<Arc<HeldNode>> {
        self.ledger.lock().enter(key, mode, is_lost)
    }

    pub(super) async fn until<T>(
        &self,
        key: &OwnedKey,
        generation: Generation,
        found: impl Fn(Progress<Arc<HeldNode>>) -> Option<T>,
    ) -> T {
        until(&self.changed, || found(self.progress(key, generation))).await
    }

    pub(super) fn progress(&self, key: &OwnedKey, generation: Generation) -> Progress<Arc<HeldNode>> {
        self.ledger.lock().progress(key, generation)
    }

    pub(super) fn queued(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().queued(key, generation);
        self.changed.notify_waiters();
    }

    /// Returns false if no task waits any more.
    pub(super) fn acquired(&self, key: &OwnedKey, generation: Generation, node: Arc<HeldNode>) -> bool {
        let wanted = self.ledger.lock().acquired(key, generation, node);
        self.changed.notify_waiters();
        wanted
    }

    pub(super) fn gave_up(&self, key: &OwnedKey, generation: Generation) {
        self.ledger.lock().gave_up(key, generation);
        self.changed.notify_waiters();
    }

    pub(super) fn leave(&self, key: &OwnedKey, generation: Generation, mode: Mode) -> Left<Arc<HeldNode>> {
        let left = self.ledger.lock().leave(key, generation, mode);
        if matches!(left, Left::Unwanted) {
            self.changed.notify_waiters();
        }
        left
    }

    pub(super) fn convert(&self, key: &OwnedKey, generation: Generation) -> Left<Arc<HeldNode>> {
        self.ledger.lock().convert(key, generation)
    }

    pub(crate) fn count(&self, key: &OwnedKey) -> usize {
        self.ledger.lock().count(key, is_lost)
    }
}

fn is_lost(node: &Arc<HeldNode>) -> bool {
    node.tenure.check().is_err()
}
