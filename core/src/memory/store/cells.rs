use super::Memory;
use crate::address::Address;
use crate::contracts::{CellLife, CellWrite, CellWritten, NodeId, TimeToIdle, VersionedValue};
use crate::decide::count::request::{CountRequest, Decided};
use crate::decide::queue::Micros;
use crate::error::Result;
use crate::memory::state::StoreState;
use crate::memory::stored_node::LeaseId;

impl Memory {
    pub(in crate::memory) fn read_cell(&self, cell: &Address) -> Option<VersionedValue> {
        self.with_cells(|state, now| state.cells.read(now, cell))
    }

    /// Returns `None` if the lease of an ephemeral cell has ended.
    pub(in crate::memory) fn write_cell(
        &self,
        lease: LeaseId,
        cell: &Address,
        write: &CellWrite,
    ) -> Option<CellWritten> {
        self.with_cells(|state, now| {
            let is_on = write.life != CellLife::Lease || state.leases.contains_key(&lease);
            is_on.then(|| state.write_cell(now, cell, write, lease))
        })
    }

    /// CELL-COUNT.
    pub(in crate::memory) fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Decided> {
        self.with_cells(|state, now| state.change_count(now, cell, request, idle))
    }

    /// CELL-HELD. Returns `None` if the node does not exist.
    pub(in crate::memory) fn write_cell_held(
        &self,
        (queue, id, sequence): (&Address, NodeId, u64),
        lease: LeaseId,
        cell: &Address,
        write: &CellWrite,
    ) -> Option<CellWritten> {
        self.with_cells(|state, now| {
            let nodes = state.queues.get_mut(queue)?;
            let admitted = nodes.prune(now);
            let stands = nodes.holds(id, sequence);
            state.notify(queue, admitted);
            stands.then(|| state.write_cell(now, cell, write, lease))
        })
    }

    fn with_cells<T>(&self, work: impl FnOnce(&mut StoreState, Micros) -> T) -> T {
        self.with(|state, now| {
            state.prune_cells(now);
            work(state, now)
        })
    }
}
