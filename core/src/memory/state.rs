//! The data of a store: queues, leases, and the nodes that its clients know.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::Notify;

use super::stored_node::{LeaseId, StoredNode};
use crate::address::{Address, QueuePrefix};
use crate::clock::Moment;
use crate::contracts::{CellLife, CellWrite, CellWritten, Expected, NodeId, TimeToIdle};
use crate::decide::CellStore;
use crate::decide::count::Count;
use crate::decide::count::request::{CountRequest, Decided};
use crate::decide::queue::{Admissions, Micros, Queue};
use crate::error::{LostReason, Result};
use crate::support::Sweeps;

#[derive(Default)]
pub(super) struct StoreState {
    pub(super) queues: HashMap<Address, Queue>,
    pub(super) leases: HashMap<LeaseId, Granted>,
    pub(super) last_lease: LeaseId,
    pub(super) live: HashMap<NodeId, Arc<StoredNode>>,
    pub(super) deaf: HashSet<NodeId>,
    pub(super) cells: CellStore<LeaseId>,
    pub(super) watches: HashMap<Address, Vec<Weak<Notify>>>,
    pub(super) sweeps: Sweeps,
    /// The queue as its watches saw it last: sequence numbers, and whether each was admitted.
    pub(super) told: HashMap<Address, Vec<(u64, bool)>>,
    pub(super) deaf_watches: HashSet<Address>,
}

pub(super) struct Granted {
    /// One renewal renews all nodes at one instant, so the client has one deadline for all of them
    /// (LEASE-DEADLINE-PER-NODE).
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

    pub(super) fn expires(&self) -> Micros {
        self.expires
    }
}

impl StoreState {
    /// Wakes admitted nodes, and a first waiter whose claim is above the limit.
    pub(super) fn notify(&mut self, address: &Address, admitted: Admissions) {
        self.tell_of_queue(address);
        let unfit = self.queues.get(address).and_then(Queue::unfit_head);
        self.wake(admitted.into_iter().chain(unfit));
    }

    /// Returns the queues of a prefix after the encoded key `after`, unsorted.
    pub(super) fn queues_of(
        &self,
        of: &QueuePrefix,
        after: &str,
    ) -> impl Iterator<Item = (&Address, &Queue)> {
        self.queues.iter().filter(move |(address, _)| of.contains(address) && address.coded() > after)
    }

    pub(super) fn set_limit(&mut self, now: Micros, queue: &Address, limit: u32) {
        let admitted = self.queues.entry(queue.clone()).or_default().set_limit(now, limit);
        self.notify(queue, admitted);
    }

    fn wake(&mut self, nodes: impl IntoIterator<Item = (NodeId, u64)>) {
        for (id, _) in nodes {
            if !self.deaf.remove(&id)
                && let Some(node) = self.live.get(&id)
            {
                // The permit remains for a node that does not wait at this instant.
                node.woken.notify_one();
            }
        }
    }

    pub(super) fn write_cell(
        &mut self,
        now: Micros,
        cell: &Address,
        write: &CellWrite,
        lease: LeaseId,
    ) -> CellWritten {
        let expires = self.leases.get(&lease).map_or(0, Granted::expires);
        let written = self.cells.write(now, cell, write, (lease, expires));
        if matches!(written, CellWritten::Written(_) | CellWritten::Deleted { was_there: true }) {
            self.tell(cell);
        }
        written
    }

    pub(super) fn change_count(
        &mut self,
        now: Micros,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Decided> {
        let found = self.cells.read(now, cell);
        let count = Count::in_cell(found.as_ref().map(|cell| &*cell.value), request.initial)?;
        let (decided, next) = count.decide(request);
        if let Some(next) = next {
            let value = Some(next.to_string().into_bytes().into());
            let life = idle.map_or(CellLife::Stays, CellLife::Idle);
            let write = CellWrite { expected: Expected::Any, value, life };
            self.write_cell(now, cell, &write, LeaseId::default());
        }
        Ok(decided)
    }

    pub(super) fn prune_cells(&mut self, now: Micros) {
        for cell in self.cells.prune(now) {
            self.tell(&cell);
        }
    }

    pub(super) fn tell(&mut self, address: &Address) {
        if !self.deaf_watches.remove(address) {
            let watches = self.watches.get(address).into_iter().flatten();
            // The permit remains for a watch that is not polled at this instant.
            watches.filter_map(Weak::upgrade).for_each(|watch| watch.notify_one());
        }
    }

    /// Notifies the watches of a queue if it has changed since their last event.
    pub(super) fn tell_of_queue(&mut self, address: &Address) {
        if !self.watches.contains_key(address) {
            return;
        }
        let queue = self.queues.get(address).into_iter().flat_map(Queue::iter);
        let now: Vec<_> = queue.map(|(sequence, _, admitted)| (sequence, admitted)).collect();
        let told = self.told.entry(address.clone()).or_default();
        if *told != now {
            *told = now;
            self.tell(address);
        }
    }

    /// Returns whether all dropped watches were swept.
    pub(super) fn add_watch(&mut self, address: &Address, watch: &Arc<Notify>) -> bool {
        let sweeps = self.sweeps.is_due(self.watches.len());
        if sweeps {
            self.sweep_watches();
            self.sweeps.swept(self.watches.len());
        }
        let watches = self.watches.entry(address.clone()).or_default();
        watches.retain(|watch| watch.strong_count() > 0);
        watches.push(Arc::downgrade(watch));
        sweeps
    }

    pub(super) fn sweep_watches(&mut self) {
        self.watches.retain(|_, watches| {
            watches.retain(|watch| watch.strong_count() > 0);
            !watches.is_empty()
        });
        self.told.retain(|queue, _| self.watches.contains_key(queue));
    }

    pub(super) fn left(&mut self, id: NodeId, was_there: bool) {
        if let Some(node) = self.live.get(&id).filter(|_| was_there) {
            node.removed.store(true, Ordering::Release);
        }
        self.forget(id, None);
    }

    /// Forgets a node, which is lost for `reason` if given.
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

    /// Drops the expired nodes of all queues, and wakes waiters.
    pub(super) fn prune(&mut self, now: Micros) {
        let mut woken = Admissions::new();
        for queue in self.queues.values_mut() {
            woken.extend(queue.prune(now));
            woken.extend(queue.unfit_head());
        }
        self.wake(woken);
        self.prune_cells(now);
        let watched: Vec<_> = self.watches.keys().cloned().collect();
        watched.iter().for_each(|queue| self.tell_of_queue(queue));
    }

    /// Forgets expired leases, nodes and queues, so that dead clients use no memory. A queue is kept as long
    /// as a new one could reuse its sequence numbers. It reads everything, and so runs only at renewals and
    /// ends of leases.
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
