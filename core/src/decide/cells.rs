//! Cells as a value, for a backend without a server. The conformance suite also compares backends with it.

use std::collections::HashMap;
use std::time::Duration;

use super::queue::Micros;
use crate::address::{Address, QueuePrefix};
use crate::contracts::{CellLife, CellWrite, CellWritten, ListedKey, TimeToIdle, Version, VersionedValue};
use crate::listing::Page;

/// Versioned cells, some of which end with leases of type `L`, and some of which end when unused (CELL-IDLE).
/// All cells share one sequence of version numbers, so that no version is used twice.
#[derive(Debug)]
pub struct CellStore<L> {
    cells: HashMap<Address, StoredCell<L>>,
    last: u64,
}

#[derive(Debug)]
struct StoredCell<L> {
    cell: VersionedValue,
    life: StoredLife<L>,
}

#[derive(Debug)]
enum StoredLife<L> {
    Stays,
    /// On this lease, and the instant at which the lease expires.
    Lease(L, Micros),
    /// With this time to idle, and the instant at which it ends.
    Idle(Micros, Micros),
}

impl<L> StoredLife<L> {
    fn ends(&self) -> Option<Micros> {
        match self {
            StoredLife::Stays => None,
            StoredLife::Lease(_, until) | StoredLife::Idle(_, until) => Some(*until),
        }
    }

    /// As a listing shows it.
    fn shown(&self) -> CellLife {
        match self {
            StoredLife::Stays => CellLife::Stays,
            StoredLife::Lease(..) => CellLife::Lease,
            // A write gave it, and none gives another than these.
            StoredLife::Idle(idle, _) => {
                TimeToIdle::new(Duration::from_micros(*idle)).map_or(CellLife::Stays, CellLife::Idle)
            }
        }
    }

    /// Records a use now.
    fn used(&mut self, now: Micros) {
        if let StoredLife::Idle(idle, until) = self {
            *until = now.saturating_add(*idle);
        }
    }
}

impl<L> Default for CellStore<L> {
    fn default() -> Self {
        Self { cells: HashMap::new(), last: 0 }
    }
}

impl<L> CellStore<L> {
    /// Returns the cell at this address, and counts the use. [`prune`](Self::prune) first.
    pub fn read(&mut self, now: Micros, address: &Address) -> Option<VersionedValue> {
        let stored = self.cells.get_mut(address)?;
        stored.life.used(now);
        Some(stored.cell.clone())
    }

    /// Makes the change if the cell is as expected. An ephemeral cell ends with `lease`, which expires at
    /// `expires`. [`prune`](Self::prune) first.
    pub fn write(
        &mut self,
        now: Micros,
        address: &Address,
        write: &CellWrite,
        (lease, expires): (L, Micros),
    ) -> CellWritten {
        let found = self.cells.get(address).map(|stored| &stored.cell);
        if !write.expected.is_met_by(found.map(|cell| cell.version)) {
            return CellWritten::Refused(found.cloned());
        }
        let Some(value) = write.value.clone() else {
            return CellWritten::Deleted { was_there: self.cells.remove(address).is_some() };
        };
        self.last += 1;
        let version = Version::new(self.last, self.last);
        let mut cell = VersionedValue::new(version, value);
        let mut life = match write.life {
            CellLife::Stays => StoredLife::Stays,
            CellLife::Lease => StoredLife::Lease(lease, expires),
            CellLife::Idle(idle) => {
                cell.idle = Some(idle);
                StoredLife::Idle(u64::try_from(idle.get().as_nanos().div_ceil(1000)).unwrap_or(u64::MAX), now)
            }
        };
        life.used(now);
        self.cells.insert(address.clone(), StoredCell { cell, life });
        CellWritten::Written(version)
    }

    /// Renews the cells of a lease: they expire at `expires`.
    pub fn renew(&mut self, is_it: impl Fn(&L) -> bool, expires: Micros) {
        for stored in self.cells.values_mut() {
            if let StoredLife::Lease(lease, until) = &mut stored.life
                && is_it(lease)
            {
                *until = expires;
            }
        }
    }

    /// Removes the cells of the lease for which `is_it` is true. Returns their addresses.
    pub fn end(&mut self, is_it: impl Fn(&L) -> bool) -> Vec<Address> {
        self.remove(|life| matches!(life, StoredLife::Lease(lease, _) if is_it(lease)))
    }

    /// Removes the cells whose lease has expired, and the cells that no client has used for their time to idle.
    /// Returns their addresses.
    pub fn prune(&mut self, now: Micros) -> Vec<Address> {
        self.remove(|life| life.ends().is_some_and(|ends| ends <= now))
    }

    /// Returns when the cell at this address ends, if no client renews its lease or uses the cell until then.
    pub fn expires(&self, address: &Address) -> Option<Micros> {
        self.cells.get(address)?.life.ends()
    }

    /// Removes all cells. The sequence of versions continues.
    pub fn emptied(self) -> Self {
        Self { cells: HashMap::new(), last: self.last }
    }

    /// Returns the addresses of all cells.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.cells.keys()
    }

    /// Returns the cells of a prefix after the encoded key `after`, in the order of the encoded keys
    /// (CELL-LIST). [`prune`](Self::prune) first.
    pub fn list(&self, of: &QueuePrefix, after: &str, most: usize) -> Page<ListedKey> {
        let found = self.cells.iter().filter(|(cell, _)| of.contains(cell) && cell.coded() > after);
        let keys = found.map(|(cell, stored)| ListedKey::new(cell.clone(), stored.life.shown())).collect();
        Page::in_order(keys, most)
    }

    fn remove(&mut self, is_over: impl Fn(&StoredLife<L>) -> bool) -> Vec<Address> {
        let mut removed = Vec::new();
        self.cells.retain(|address, stored| {
            let is_over = is_over(&stored.life);
            if is_over {
                removed.push(address.clone());
            }
            !is_over
        });
        removed
    }
}
