//! What a store has: queues, leases, and the nodes that its clients know.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::stored_node::{LeaseId, StoredNode};
use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{CellWrite, CellWritten, NodeId};
use crate::decide::CellStore;
use crate::decide::queue::{Admissions, Micros, Queue};
use crate::error::LostReason;

#[derive(Default)]
pub(super) struct StoreState {
    pub(super) queues: HashMap<Address, Queue>,
    pub(super) leases: HashMap<LeaseId, Granted>,
    pub(super) last_lease: LeaseId,
    pub(super) live: HashMap<NodeId, Arc<StoredNode>>,
    /// The next wake-up to these nodes is lost: a fault.
    pub(super) deaf: HashSet<NodeId>,
    pub(super) cells: CellStore,
    /// Who watches which cell.
    pub(super) watches: HashMap<Address, Vec<Weak<Notify>>>,
    /// The next news of these cells is lost: a fault.
    pub(super) deaf_cells: HashSet<Address>,
}

/// A lease, as the store has it.
pub(super) struct Granted {
    /// A renewal renews all of them at one instant, so that the client's one deadline holds for
    /// each (LEASE-DEADLINE-PER-NODE).
    pub(super) nodes: HashMap<NodeId, (Address, u64)>,
    ttl: Duration,
    expires: Micros,
}

impl Granted {
    pub(super) fn new(ttl: Duration, now: Micros) -> Self {
        let mut lease = Self { nodes: HashMap::new(), ttl, expires: now };
        lease.renew(now);
        lease
    }

    pub(super) fn renew(&mut self, now: Micros) {
        self.expires = micros(moment(now) + self.ttl);
    }
}

impl StoreState {
    /// Wakes the nodes that an operation admitted, and a first waiter that no limit admits any
    /// more.
    pub(super) fn notify(&mut self, address: &Address, admitted: Admissions) {
        let unfit = self.queues.get(address).and_then(Queue::unfit_head);
        self.wake(admitted.into_iter().chain(unfit));
    }

    fn wake(&mut self, nodes: impl IntoIterator<Item = (NodeId, u64)>) {
        for (id, _) in nodes {
            if !self.deaf.remove(&id)
                && let Some(node) = self.live.get(&id)
            {
                // Kept for a waiter that does not wait at this instant.
                node.woken.notify_one();
            }
        }
    }

    /// Writes a cell, and tells its watches of a change.
    pub(super) fn write_cell(&mut self, cell: &Address, write: &CellWrite) -> CellWritten {
        let written = self.cells.write(cell, write);
        let changed = matches!(written, CellWritten::Written(_) | CellWritten::Deleted { was_there: true });
        if changed && !self.deaf_cells.remove(cell) {
            let watches = self.watches.get(cell).into_iter().flatten();
            // Kept for a watch that is not asked at this instant.
            watches.filter_map(Weak::upgrade).for_each(|watch| watch.notify_one());
        }
        written
    }

    /// Forgets the watches that were dropped.
    pub(super) fn sweep_watches(&mut self) {
        self.watches.retain(|_, watches| {
            watches.retain(|watch| watch.strong_count() > 0);
            !watches.is_empty()
        });
    }

    /// Its owner has left.
    pub(super) fn left(&mut self, id: NodeId, was_there: bool) {
        if let Some(node) = self.live.get(&id).filter(|_| was_there) {
            node.removed.store(true, Ordering::Release);
        }
        self.forget(id, None);
    }

    /// Forgets a node. Its owner learns `reason`, unless it has left.
    pub(super) fn forget(&mut self, id: NodeId, reason: Option<LostReason>) {
        self.deaf.remove(&id);
        let Some(node) = self.live.remove(&id) else { return };
        if let Some(lease) = self.leases.get_mut(&node.lease) {
            lease.nodes.remove(&id);
        }
        if let Some(reason) = reason {
            node.state.gone(reason);
        }
    }

    /// Drops the expired nodes of all queues, and wakes as [`notify`](StoreState::notify) does.
    pub(super) fn prune(&mut self, now: Micros) {
        let mut woken = Admissions::new();
        for queue in self.queues.values_mut() {
            woken.extend(queue.prune(now));
            woken.extend(queue.unfit_head());
        }
        self.wake(woken);
    }

    /// Forgets what has expired, so that dead clients leave no memory behind, and queues that would
    /// give out no lower sequence number when they are made anew. It looks at everything, and so
    /// runs only at renewals and ends of leases.
    pub(super) fn sweep(&mut self, now: Micros) {
        self.prune(now);
        let Self { queues, live, leases, .. } = self;
        live.retain(|id, node| {
            let there = queues.get(&node.queue).is_some_and(|queue| queue.holds(*id, node.sequence()));
            if !there && let Some(lease) = leases.get_mut(&node.lease) {
                lease.nodes.remove(id);
            }
            there
        });
        leases.retain(|_, lease| !lease.nodes.is_empty() || lease.expires > now);
        queues.retain(|_, queue| !queue.is_forgettable(now));
    }
}

pub(super) fn micros(moment: Moment) -> Micros {
    moment.as_nanos() / 1_000
}

pub(super) fn moment(micros: Micros) -> Moment {
    Moment::from_nanos(micros.saturating_mul(1_000))
}
