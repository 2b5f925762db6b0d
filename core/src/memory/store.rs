//! The store. Each operation runs alone, under one lock.

mod cells;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::state::{Granted, StoreState, micros, moment};
use super::stored_node::{LeaseId, StoredNode};
use crate::address::{Address, QueuePrefix};
use crate::clock::{Clock, Moment};
use crate::contracts::{EntryPage, ExpectedLimit, KeysWith, ListedKey, NodeId, QueueEntry};
use crate::decide::CellStore;
use crate::decide::queue::{Answer, Micros, Queue, QueueJoin};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::listing::Page;

/// A memory store, shared by its clients and dropped with the last of them.
#[derive(Clone)]
pub struct Memory(Arc<StoreInner>);

/// A copy of the cells of a store.
#[derive(Clone, Debug)]
pub struct MemoryCopy(CellStore<LeaseId>);

struct StoreInner {
    clock: Clock,
    state: Mutex<StoreState>,
}

static NAMED: LazyLock<Mutex<HashMap<String, Weak<StoreInner>>>> = LazyLock::new(Mutex::default);

impl Memory {
    /// Creates a private store on `clock`.
    pub fn new(clock: Clock) -> Self {
        Self(Arc::new(StoreInner { clock, state: Mutex::default() }))
    }

    /// Returns the store of this name in this process, or creates it on `clock`.
    ///
    /// # Errors
    /// `Misconfigured` if the store exists with the other kind of clock.
    pub fn named(name: &str, clock: Clock) -> Result<Self> {
        let store = Self::named_or(name, || clock.clone());
        if store.0.clock.is_tokio() != clock.is_tokio() {
            return Err(Error::new(
                ErrorKind::Misconfigured,
                format!(
                    "memory store {name:?} exists and runs on {:?}, not on {clock:?}: use that clock, or another name",
                    store.0.clock
                ),
            ));
        }
        Ok(store)
    }

    pub(super) fn named_or_system(name: &str) -> Self {
        Self::named_or(name, Clock::system)
    }

    fn named_or(name: &str, clock: impl FnOnce() -> Clock) -> Self {
        let mut named = NAMED.lock();
        named.retain(|_, store| store.strong_count() > 0);
        if let Some(store) = named.get(name).and_then(Weak::upgrade) {
            return Self(store);
        }
        let store = Self::new(clock());
        named.insert(name.to_owned(), Arc::downgrade(&store.0));
        store
    }

    /// Returns the clock of the store.
    pub fn clock(&self) -> &Clock {
        &self.0.clock
    }

    /// Removes a node from outside, so that its hold is lost as `Revoked`. Returns whether the node existed.
    pub fn remove(&self, queue: &Address, sequence: u64) -> bool {
        self.with(|state, now| {
            let Some(nodes) = state.queues.get_mut(queue) else { return false };
            let (slot, admitted) = nodes.remove(now, sequence);
            state.notify(queue, admitted);
            let Some(slot) = slot else { return false };
            state.forget(slot.id, Some(LostReason::Revoked));
            true
        })
    }

    /// Deletes everything, as a server that restarts without its data does. Clients notice at their next
    /// renewal or join.
    pub fn wipe(&self) {
        self.with(|state, _| {
            let StoreState { last_lease, cells, watches, .. } = std::mem::take(state);
            // Lease ids and versions are never reused, as on every backend.
            *state = StoreState { last_lease, cells: cells.emptied(), watches, ..StoreState::default() };
        });
    }

    /// Returns a copy of the cells, to which the store can [go back](Self::go_back).
    pub fn copy(&self) -> MemoryCopy {
        self.with(|state, _| MemoryCopy(state.cells.clone()))
    }

    /// Returns to an earlier copy, as a server that restarts from one does. Queues, nodes and leases are
    /// gone.
    pub fn go_back(&self, to: &MemoryCopy) {
        self.wipe();
        self.with(|state, _| state.cells = state.cells.gone_back(&to.0));
    }

    /// Lists nodes, cells and watches as text, so that a test can check that nothing remains.
    pub fn contents(&self) -> Vec<String> {
        self.with(|state, now| {
            state.prune(now);
            state.sweep_watches();
            let mut contents: Vec<_> = state.cells.addresses().map(|cell| format!("{cell:?}")).collect();
            contents.extend(state.watches.keys().map(|cell| format!("{cell:?} watched")));
            for (address, queue) in &state.queues {
                contents.extend(
                    queue.iter().map(|(sequence, slot, _)| format!("{address:?}/{sequence} {:?}", slot.id)),
                );
            }
            contents
        })
    }

    pub(super) fn open_lease(&self, ttl: Duration) -> LeaseId {
        self.with(|state, now| {
            state.last_lease += 1;
            state.leases.insert(state.last_lease, Granted::new(ttl, now));
            state.last_lease
        })
    }

    pub(super) fn end_lease(&self, lease: LeaseId, reason: LostReason) {
        self.with(|state, now| {
            let nodes = state.leases.remove(&lease).map(|lease| lease.nodes).unwrap_or_default();
            for (id, (address, sequence)) in nodes {
                if let Some(queue) = state.queues.get_mut(&address) {
                    let (_, admitted) = queue.leave(now, id, sequence);
                    state.notify(&address, admitted);
                }
                state.forget(id, Some(reason));
            }
            for cell in state.cells.end(|on| *on == lease) {
                state.tell(&cell);
            }
            state.sweep(now);
        });
    }

    pub(super) fn lease_left(&self, lease: LeaseId) -> Vec<Duration> {
        self.with(|state, now| {
            let Some(lease) = state.leases.get(&lease) else { return Vec::new() };
            let nodes = lease.nodes.iter().filter_map(|(id, (queue, _))| {
                state
                    .queues
                    .get(queue)?
                    .iter()
                    .find(|(_, slot, _)| slot.id == *id)
                    .map(|(_, slot, _)| slot.expires)
            });
            let ends = nodes.chain([lease.expires()]);
            ends.map(|end| Duration::from_micros(end.saturating_sub(now))).collect()
        })
    }

    /// Renews every node of a lease. Returns `None` if the lease does not exist.
    pub(super) fn renew(&self, id: LeaseId) -> Option<()> {
        self.with(|state, now| {
            state.prune_cells(now);
            let lease = state.leases.get_mut(&id)?;
            lease.renew(now);
            state.cells.renew(|on| *on == id, lease.expires());
            let nodes: Vec<_> = lease.nodes.iter().map(|(id, place)| (*id, place.clone())).collect();
            for (id, (address, sequence)) in nodes {
                let (answer, admitted) = match state.queues.get_mut(&address) {
                    Some(queue) => queue.renew(now, id, sequence),
                    None => (Answer::Gone, Vec::new()),
                };
                state.notify(&address, admitted);
                if answer == Answer::Gone {
                    state.forget(id, Some(LostReason::Revoked));
                }
            }
            state.sweep(now);
            Some(())
        })
    }

    /// Joins under a lease, or returns `None` if it does not exist. `make` gets the sequence number and the
    /// number of nodes ahead. It creates the node under the store's lock, so no wake-up comes earlier
    /// (QUEUE-INBOX-BEFORE-JOIN).
    pub(super) fn join(
        &self,
        lease: LeaseId,
        address: &Address,
        ask: &QueueJoin,
        make: impl FnOnce(u64, usize) -> Arc<StoredNode>,
    ) -> Option<(Answer, Option<Arc<StoredNode>>)> {
        self.with(|state, now| {
            state.leases.get(&lease)?;
            let queue = state.queues.entry(address.clone()).or_default();
            let (answer, admitted) = queue.join(now, ask);
            state.notify(address, admitted);
            let (Answer::Admitted { sequence } | Answer::Waiting { sequence, .. }) = answer else {
                return Some((answer, None));
            };
            let nodes = &mut state.leases.get_mut(&lease)?.nodes;
            let known = nodes.insert(ask.id, (address.clone(), sequence)).is_some();
            if !known && state.live.contains_key(&ask.id) {
                // A node found again on another lease does not count (NODE-IDEMPOTENT).
                nodes.remove(&ask.id);
                return Some((Answer::Gone, None));
            }
            let ahead = state.queues.get(address).map_or(0, |queue| queue.ahead(sequence));
            let node = state.live.entry(ask.id).or_insert_with(|| make(sequence, ahead));
            Some((answer, Some(Arc::clone(node))))
        })
    }

    pub(super) fn leave(&self, address: &Address, id: NodeId, sequence: u64) -> bool {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return false };
            let (was_there, admitted) = queue.leave(now, id, sequence);
            state.notify(address, admitted);
            state.left(id, was_there);
            was_there
        })
    }

    pub(super) fn abandon(&self, address: &Address, id: NodeId) -> bool {
        self.with(|state, now| {
            let (was_there, admitted) = state.queues.entry(address.clone()).or_default().abandon(now, id);
            state.notify(address, admitted);
            state.left(id, was_there);
            was_there
        })
    }

    pub(super) fn look(&self, address: &Address, id: NodeId, sequence: u64) -> Answer {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return Answer::Gone };
            let admitted = queue.prune(now);
            let answer = if queue.holds(id, sequence) { queue.answer(sequence) } else { Answer::Gone };
            state.notify(address, admitted);
            answer
        })
    }

    pub(super) fn list(&self, address: &Address, page: EntryPage) -> Vec<QueueEntry> {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return Vec::new() };
            let admitted = queue.prune(now);
            let entries = queue
                .iter()
                .filter(|(sequence, ..)| *sequence > page.after)
                .take(page.most)
                .map(|(sequence, slot, admitted)| {
                    let node = state.live.get(&slot.id);
                    QueueEntry {
                        sequence,
                        claim: slot.claim,
                        admitted,
                        label: node
                            .map(|node| QueueEntry::label_of(node.label.as_bytes()))
                            .unwrap_or_default(),
                        age: node.map(|node| self.0.clock.now().since(node.joined)),
                        lease_left: page
                            .leases
                            .then(|| Duration::from_micros(slot.expires.saturating_sub(now))),
                        data: node.map(|node| node.data.lock().clone()).unwrap_or_default(),
                    }
                })
                .collect();
            state.notify(address, admitted);
            entries
        })
    }

    pub(super) fn downgrade(&self, address: &Address, id: NodeId, sequence: u64) -> bool {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(address) else { return false };
            let (there, admitted) = queue.downgrade(now, id, sequence);
            state.notify(address, admitted);
            there
        })
    }

    /// NODE-DATA.
    pub(super) fn write_data(&self, node: &StoredNode, data: &Arc<[u8]>) -> bool {
        self.with(|state, now| {
            let Some(queue) = state.queues.get_mut(&node.queue) else { return false };
            let admitted = queue.prune(now);
            let stands = queue.holds(node.id, node.sequence());
            state.notify(&node.queue, admitted);
            if stands {
                *node.data.lock() = Arc::clone(data);
                state.tell(&node.queue);
            }
            stands
        })
    }

    pub(super) fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: &str,
        most: usize,
    ) -> Page<ListedKey> {
        self.with(|state, now| {
            let queues =
                |state: &StoreState, is_listed: fn(&Queue) -> bool, listed: fn(Address) -> ListedKey| {
                    let found = state.queues_of(of, after).filter(|(_, queue)| is_listed(queue));
                    Page::in_order(found.map(|(address, _)| listed(address.clone())).collect(), most)
                };
            match with {
                KeysWith::Nodes => {
                    state.prune(now);
                    queues(state, |queue| !queue.is_empty(), ListedKey::queue)
                }
                KeysWith::Limit => queues(state, |queue| queue.limit().is_some(), ListedKey::limit),
                KeysWith::Cell => {
                    state.prune_cells(now);
                    state.cells.list(of, after, most)
                }
            }
        })
    }

    pub(super) fn watch(&self, address: &Address, watch: &Arc<Notify>) {
        self.with(|state, now| {
            state.add_watch(address, watch);
            state.prune_cells(now);
            let admitted = state.queues.get_mut(address).map(|queue| queue.prune(now));
            state.notify(address, admitted.unwrap_or_default());
        });
    }

    /// Returns the next expiry of a cell or queue, when its watch must look.
    pub(super) fn next_expiry(&self, address: &Address) -> Moment {
        self.with(|state, _| {
            let nodes = state.queues.get(address).into_iter().flat_map(Queue::iter);
            let expires = nodes.map(|(_, slot, _)| slot.expires).chain(state.cells.expires(address)).min();
            expires.map_or(Moment::NEVER, moment)
        })
    }

    pub(super) fn prune(&self) {
        self.with(|state, now| state.prune(now));
    }

    pub(super) fn deafen_watches(&self, address: &Address) {
        self.with(|state, _| state.deaf_watches.insert(address.clone()));
    }

    pub(super) fn limit(&self, address: &Address) -> Option<u32> {
        self.with(|state, _| state.queues.get(address).and_then(Queue::limit))
    }

    pub(super) fn set_limit(&self, address: &Address, expected: ExpectedLimit, limit: u32) -> bool {
        self.with(|state, now| {
            let stored = state.queues.get(address).and_then(Queue::limit);
            let is_met = expected.is_met_by(&stored.into());
            if is_met {
                state.set_limit(now, address, limit);
            }
            is_met
        })
    }

    pub(super) fn deafen(&self, address: &Address, sequence: u64) -> bool {
        self.with(|state, _| {
            let slot =
                state.queues.get(address).and_then(|queue| queue.iter().find(|(at, ..)| *at == sequence));
            let Some(id) = slot.map(|(_, slot, _)| slot.id) else { return false };
            state.deaf.insert(id)
        })
    }

    fn with<T>(&self, work: impl FnOnce(&mut StoreState, Micros) -> T) -> T {
        let mut state = self.0.state.lock();
        // Read under the lock, so the store's time never goes back between operations.
        let now = micros(self.0.clock.now());
        work(&mut state, now)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("clock", &self.0.clock).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
