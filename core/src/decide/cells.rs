//! Cells as a value: what a backend without a server keeps, and what the suite compares with.

use std::collections::HashMap;

use super::queue::Micros;
use crate::address::Address;
use crate::contracts::{Cell, CellLife, CellWrite, CellWritten, Version};

/// Versioned cells, some of which hang on leases of type `L`. Versions are numbers of one row for
/// all of them, so that none comes twice.
#[derive(Debug)]
pub struct CellStore<L> {
    cells: HashMap<Address, Stored<L>>,
    last: u64,
}

#[derive(Debug)]
struct Stored<L> {
    cell: Cell,
    // The lease of an ephemeral cell, and when it runs out.
    lease: Option<(L, Micros)>,
}

impl<L> Default for CellStore<L> {
    fn default() -> Self {
        Self { cells: HashMap::new(), last: 0 }
    }
}

impl<L> CellStore<L> {
    /// The cell at this address. [`prune`](Self::prune) first.
    pub fn read(&self, address: &Address) -> Option<Cell> {
        self.cells.get(address).map(|stored| stored.cell.clone())
    }

    /// Makes the change if the cell is as expected. An ephemeral cell hangs on `lease`, which runs
    /// out at `expires`. [`prune`](Self::prune) first.
    pub fn write(&mut self, address: &Address, write: &CellWrite, lease: L, expires: Micros) -> CellWritten {
        let now = self.read(address);
        if !write.expected.is_met_by(now.as_ref().map(|cell| cell.version)) {
            return CellWritten::Refused(now);
        }
        let Some(value) = write.value.clone() else {
            return CellWritten::Deleted { was_there: self.cells.remove(address).is_some() };
        };
        self.last += 1;
        let version = Version::new(self.last, self.last);
        let lease = (write.life == CellLife::Lease).then_some((lease, expires));
        self.cells.insert(address.clone(), Stored { cell: Cell { version, value }, lease });
        CellWritten::Written(version)
    }

    /// Renews the cells of a lease: they run out at `expires`.
    pub fn renew(&mut self, is_it: impl Fn(&L) -> bool, expires: Micros) {
        for (_, until) in self.leased().filter(|(lease, _)| is_it(lease)) {
            *until = expires;
        }
    }

    /// Removes the cells of a lease. Answers where they were.
    pub fn end(&mut self, is_it: impl Fn(&L) -> bool) -> Vec<Address> {
        self.remove(|(lease, _)| is_it(lease))
    }

    /// Removes the cells whose lease has run out. Answers where they were.
    pub fn prune(&mut self, now: Micros) -> Vec<Address> {
        self.remove(|(_, expires)| *expires <= now)
    }

    /// When the lease of the cell at this address runs out.
    pub fn expires(&self, address: &Address) -> Option<Micros> {
        self.cells.get(address)?.lease.as_ref().map(|(_, expires)| *expires)
    }

    /// Without any cell. Versions go on.
    pub fn emptied(self) -> Self {
        Self { cells: HashMap::new(), last: self.last }
    }

    /// The addresses of all cells.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.cells.keys()
    }

    fn leased(&mut self) -> impl Iterator<Item = &mut (L, Micros)> {
        self.cells.values_mut().filter_map(|stored| stored.lease.as_mut())
    }

    fn remove(&mut self, is_over: impl Fn(&(L, Micros)) -> bool) -> Vec<Address> {
        let mut removed = Vec::new();
        self.cells.retain(|address, stored| {
            let is_over = stored.lease.as_ref().is_some_and(&is_over);
            if is_over {
                removed.push(address.clone());
            }
            !is_over
        });
        removed
    }
}
