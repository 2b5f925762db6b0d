//! The operations on cells.

use super::Memory;
use crate::address::Address;
use crate::contracts::{Cell, CellLife, CellWrite, CellWritten, NodeId, TimeToIdle};
use crate::decide::count::request::{Decided, Request};
use crate::error::Result;
use crate::memory::stored_node::LeaseId;

impl Memory {
    pub(in crate::memory) fn read_cell(&self, cell: &Address) -> Option<Cell> {
        self.with(|state, now| {
            state.prune_cells(now);
            state.cells.read(now, cell)
        })
    }

    /// `None`: an ephemeral cell was to be written, and there is no such lease any more.
    pub(in crate::memory) fn write_cell(
        &self,
        lease: LeaseId,
        cell: &Address,
        write: &CellWrite,
    ) -> Option<CellWritten> {
        self.with(|state, now| {
            state.prune_cells(now);
            let is_on = write.life != CellLife::Lease || state.leases.contains_key(&lease);
            is_on.then(|| state.write_cell(now, cell, write, lease))
        })
    }

    /// Changes the count in a cell (CELL-COUNT).
    pub(in crate::memory) fn change_count(
        &self,
        cell: &Address,
        request: &Request,
        idle: Option<TimeToIdle>,
    ) -> Result<Decided> {
        self.with(|state, now| {
            state.prune_cells(now);
            state.change_count(now, cell, request, idle)
        })
    }

    /// Writes while this node stands in its queue (CELL-HELD). `None`: it does not.
    pub(in crate::memory) fn write_cell_held(
        &self,
        (queue, id, sequence): (&Address, NodeId, u64),
        lease: LeaseId,
        cell: &Address,
        write: &CellWrite,
    ) -> Option<CellWritten> {
        self.with(|state, now| {
            state.prune_cells(now);
            let nodes = state.queues.get_mut(queue)?;
            let admitted = nodes.prune(now);
            let stands = nodes.holds(id, sequence);
            state.notify(queue, admitted);
            stands.then(|| state.write_cell(now, cell, write, lease))
        })
    }
}
