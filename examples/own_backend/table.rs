//! The server: a table in this process. Core's [`Queue`] decides who is admitted. The table keeps the nodes,
//! and wakes them.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::backend::{Client, TableNode};
use crate::watches::Watches;
use latchwork_core::backend::decide::CellStore;
use latchwork_core::backend::decide::queue::{Admissions, Answer, Micros, Queue, QueueJoin, Slot};
use latchwork_core::backend::{
    CellWrite, CellWritten, EntryPage, ExpectedLimit, Join, Joined, KeysWith, LeaseWriter, Node, NodeId,
    NodeWriter, QueueEntry, VersionedValue,
};
use latchwork_core::{Address, Error, Lease, ListedKey, LostReason, Page, QueuePrefix, Result};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Table {
    queues: HashMap<Address, Queue>,
    nodes: HashMap<NodeId, Arc<TableNode>>,
    cells: CellStore<Lease>,
    watches: Watches,
}

impl Table {
    /// Also wakes the nodes that it admitted, and a first waiter that can no longer be admitted.
    pub(crate) fn on<T>(
        &mut self,
        queue: &Address,
        operation: impl FnOnce(&mut Queue) -> (T, Admissions),
    ) -> T {
        let state = self.queues.entry(queue.clone()).or_default();
        let (answer, told) = operation(state);
        for (id, _) in told.into_iter().chain(state.unfit_head()) {
            if let Some(node) = self.nodes.get(&id) {
                node.woken.notify_one();
            }
        }
        self.watches.tell_of(queue, &self.queues[queue]);
        answer
    }

    pub(crate) fn watch(&mut self, address: &Address, watch: &Arc<Notify>) {
        self.watches.add(address, watch);
        self.on(address, |_| ((), Admissions::new()));
    }

    /// Returns the time of the next expiry.
    pub(crate) fn look(&mut self, now: Micros, address: &Address) -> Option<Micros> {
        self.prune_cells(now);
        self.on(address, |queue| ((), queue.prune(now)));
        let nodes = self.queues[address].iter().map(|(_, slot, _)| slot.expires);
        nodes.chain(self.cells.expires(address)).min()
    }

    pub(crate) fn read_cell(&mut self, now: Micros, cell: &Address) -> Option<VersionedValue> {
        self.prune_cells(now);
        self.cells.read(now, cell)
    }

    /// An ephemeral cell ends with this lease.
    pub(crate) fn write_cell(
        &mut self,
        now: Micros,
        cell: &Address,
        write: &CellWrite,
        lease: Lease,
    ) -> CellWritten {
        self.prune_cells(now);
        let expires = now + micros(lease.ttl());
        let written = self.cells.write(now, cell, write, (lease, expires));
        if !matches!(written, CellWritten::Refused(_)) {
            self.watches.tell(cell);
        }
        written
    }

    fn prune_cells(&mut self, now: Micros) {
        for cell in self.cells.prune(now) {
            self.watches.tell(&cell);
        }
    }

    /// Returns whether the node exists.
    pub(crate) fn write_data(&mut self, now: Micros, queue: &Address, id: NodeId, data: Arc<[u8]>) -> bool {
        self.on(queue, |state| ((), state.prune(now)));
        let stands = self.queues[queue].find(id).is_some();
        let Some(node) = self.nodes.get(&id).filter(|_| stands) else { return false };
        *node.data.lock() = data;
        self.watches.tell(queue);
        true
    }

    pub(crate) fn list_keys(
        &mut self,
        now: Micros,
        with: KeysWith,
        of: &QueuePrefix,
        after: &str,
        most: usize,
    ) -> Page<ListedKey> {
        let queues = self.queues.keys().filter(|queue| of.contains(queue) && queue.coded() > after);
        let mut queues: Vec<_> = queues.cloned().collect();
        match with {
            KeysWith::Cell => {
                self.prune_cells(now);
                self.cells.list(of, after, most)
            }
            KeysWith::Nodes => {
                queues.retain(|queue| {
                    self.on(queue, |state| ((), state.prune(now)));
                    !self.queues[queue].is_empty()
                });
                Page::in_order(queues.into_iter().map(ListedKey::queue).collect(), most)
            }
            KeysWith::Limit => {
                queues.retain(|queue| self.queues[queue].limit().is_some());
                Page::in_order(queues.into_iter().map(ListedKey::limit).collect(), most)
            }
        }
    }

    /// A node that is found again counts only on its own lease (NODE-IDEMPOTENT).
    pub(crate) fn join(
        &mut self,
        now: Micros,
        join: &Join,
        lease: LeaseWriter,
        client: Weak<Client>,
    ) -> Result<Joined> {
        let Join { queue, id, claim, limit, patience, .. } = join;
        let ttl = micros(lease.ttl());
        let ask = QueueJoin { id: *id, claim: *claim, limit: *limit, ttl, patience: *patience };
        let answer = self.on(queue, |queue| queue.join(now, &ask));
        let sequence = match answer {
            Answer::Admitted { sequence } | Answer::Waiting { sequence, .. } => sequence,
            Answer::Refused => return Ok(Joined::Refused),
            Answer::Conflict { stored } => return Err(join.conflict(&stored.into())),
            Answer::Gone => return Err(Error::lost(LostReason::Expired)),
        };
        let made = || Arc::new(TableNode::new(join, NodeWriter::new(lease.clone(), sequence), client));
        let node = self.nodes.entry(*id).or_insert_with(made).clone();
        if !node.state().lease().same_as(&lease) {
            return Err(Error::lost(LostReason::Expired));
        }
        node.asked_by(join);
        Ok(match answer {
            Answer::Admitted { .. } => Joined::Admitted(node),
            _ => Joined::Waiting(node),
        })
    }

    /// `tombstone`: another request of the attempt may still arrive. Returns whether the node was there.
    pub(crate) fn leave(&mut self, now: Micros, queue: &Address, id: NodeId, tombstone: bool) -> bool {
        let node = self.nodes.remove(&id);
        match node {
            Some(node) if !tombstone => self.on(queue, |queue| queue.leave(now, id, node.state().sequence())),
            _ => self.on(queue, |queue| queue.abandon(now, id)),
        }
    }

    /// At one instant, so that the client's one deadline holds for all of them.
    pub(crate) fn renew(&mut self, now: Micros, lease: &LeaseWriter) {
        self.prune_cells(now);
        self.cells.renew(|on| on.same_as(lease), now + micros(lease.ttl()));
        for node in self.of(lease) {
            let (id, sequence) = (node.id, node.state().sequence());
            if self.on(&node.queue, |queue| queue.renew(now, id, sequence)) == Answer::Gone {
                node.state.gone(LostReason::Revoked);
            }
        }
        let Self { queues, nodes, .. } = self;
        nodes.retain(|id, node| {
            queues.get(&node.queue).is_some_and(|queue| queue.holds(*id, node.state().sequence()))
        });
        queues.retain(|_, queue| !queue.is_forgettable(now));
    }

    pub(crate) fn end(&mut self, now: Micros, lease: &LeaseWriter, reason: LostReason) {
        lease.end(reason);
        for node in self.of(lease) {
            self.leave(now, &node.queue, node.id, false);
        }
        for cell in self.cells.end(|on| on.same_as(lease)) {
            self.watches.tell(&cell);
        }
    }

    fn of(&self, lease: &LeaseWriter) -> Vec<Arc<TableNode>> {
        self.nodes.values().filter(|node| node.state().lease().same_as(lease)).cloned().collect()
    }

    pub(crate) fn revoke(&mut self, now: Micros, queue: &Address, sequence: u64) -> bool {
        let slot = self.on(queue, |queue| queue.remove(now, sequence));
        if let Some(node) = slot.as_ref().and_then(|slot| self.nodes.remove(&slot.id)) {
            node.state.gone(LostReason::Revoked);
        }
        slot.is_some()
    }

    /// Tests check that nothing is left.
    pub(crate) fn contents(&mut self, now: Micros) -> Vec<String> {
        let queues: Vec<_> = self.queues.keys().cloned().collect();
        let left = queues.iter().flat_map(|queue| {
            self.on(queue, |state| ((), state.prune(now)));
            self.queues[queue]
                .iter()
                .map(|(sequence, ..)| format!("{queue:?}/{sequence}"))
                .collect::<Vec<_>>()
        });
        let left: Vec<_> = left.collect();
        self.prune_cells(now);
        let cells = self.cells.addresses().map(|cell| format!("{cell:?}"));
        left.into_iter().chain(cells).chain(self.watches.contents()).collect()
    }

    pub(crate) fn limit(&self, queue: &Address) -> Option<u32> {
        self.queues.get(queue).and_then(Queue::limit)
    }

    /// Returns whether `expected` was stored.
    pub(crate) fn set_limit(
        &mut self,
        now: Micros,
        queue: &Address,
        expected: ExpectedLimit,
        limit: u32,
    ) -> bool {
        let is_met = expected.is_met_by(&self.limit(queue).into());
        if is_met {
            self.on(queue, |queue| ((), queue.set_limit(now, limit)));
        }
        is_met
    }

    pub(crate) fn list(&mut self, now: Micros, queue: &Address, page: EntryPage) -> Vec<QueueEntry> {
        self.on(queue, |queue| ((), queue.prune(now)));
        let entry = |(sequence, slot, admitted): (u64, &Slot, bool)| {
            let node = self.nodes.get(&slot.id);
            let label = node.map(|node| QueueEntry::label_of(node.label.as_bytes())).unwrap_or_default();
            let data = node.map(|node| node.data.lock().clone()).unwrap_or_default();
            let lease_left = page.leases.then(|| Duration::from_micros(slot.expires.saturating_sub(now)));
            QueueEntry { sequence, claim: slot.claim, admitted, label, age: None, lease_left, data }
        };
        let behind = self.queues[queue].iter().filter(|(sequence, ..)| *sequence > page.after);
        behind.take(page.most).map(entry).collect()
    }
}

fn micros(time: Duration) -> Micros {
    u64::try_from(time.as_micros()).expect("a TTL is at most an hour")
}
