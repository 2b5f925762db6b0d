//! Cells as a value, for a backend without a server, and for a comparison with other backends.

use std::collections::{BTreeSet, HashMap};

use super::queue::Micros;
use crate::address::{Address, QueuePrefix};
use crate::contracts::{CellLife, CellWrite, CellWritten, ListedKey, TimeToIdle, Version, VersionedValue};
use crate::listing::Page;

/// Versioned cells, some of which end with leases of type `L` or when they are unused (CELL-IDLE). All share
/// one sequence of versions, so no version is used twice.
#[derive(Clone, Debug)]
pub struct CellStore<L> {
    cells: HashMap<Address, StoredCell<L>>,
    // The ends of cells, so that a prune reads no other cell.
    ends: BTreeSet<(Micros, Address)>,
    last: u64,
}

#[derive(Clone, Debug)]
struct StoredCell<L> {
    cell: VersionedValue,
    lease: Option<L>,
    // When its lease expires, or its time to idle is over.
    ends: Option<Micros>,
}

impl<L> StoredCell<L> {
    /// As a listing shows it.
    fn life(&self) -> CellLife {
        match self.lease {
            Some(_) => CellLife::Lease,
            None => self.cell.idle.map_or(CellLife::Stays, CellLife::Idle),
        }
    }
}

/// Returns when a cell ends that is used now.
fn idle_end(now: Micros, idle: TimeToIdle) -> Micros {
    now.saturating_add(Micros::try_from(idle.get().as_nanos().div_ceil(1000)).unwrap_or(Micros::MAX))
}

impl<L> Default for CellStore<L> {
    fn default() -> Self {
        Self { cells: HashMap::new(), ends: BTreeSet::new(), last: 0 }
    }
}

impl<L: Clone> CellStore<L> {
    /// Returns the store with the cells of an earlier copy. No version is used again.
    #[must_use]
    pub fn gone_back(&self, copy: &Self) -> Self {
        Self { cells: copy.cells.clone(), ends: copy.ends.clone(), last: self.last }
    }
}

impl<L> CellStore<L> {
    /// Returns a cell, and counts the use. [`prune`](Self::prune) first.
    pub fn read(&mut self, now: Micros, address: &Address) -> Option<VersionedValue> {
        let stored = self.cells.get_mut(address)?;
        let before = stored.ends;
        if let Some(idle) = stored.cell.idle {
            stored.ends = Some(idle_end(now, idle));
        }
        let (cell, after) = (stored.cell.clone(), stored.ends);
        self.ends_at(address, before, after);
        Some(cell)
    }

    /// Writes a cell if it is as expected. An ephemeral cell ends with `lease`, which expires at `expires`.
    /// [`prune`](Self::prune) first.
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
            return CellWritten::Deleted { was_there: self.take(address).is_some() };
        };
        self.last += 1;
        let version = Version::new(self.last, self.last);
        let mut cell = VersionedValue::new(version, value);
        let (lease, ends) = match write.life {
            CellLife::Stays => (None, None),
            CellLife::Lease => (Some(lease), Some(expires)),
            CellLife::Idle(idle) => {
                cell.idle = Some(idle);
                (None, Some(idle_end(now, idle)))
            }
        };
        let before = self.cells.insert(address.clone(), StoredCell { cell, lease, ends });
        self.ends_at(address, before.and_then(|before| before.ends), ends);
        CellWritten::Written(version)
    }

    /// Renews the cells of a lease until `expires`.
    pub fn renew(&mut self, is_it: impl Fn(&L) -> bool, expires: Micros) {
        for (address, stored) in &mut self.cells {
            if stored.lease.as_ref().is_some_and(&is_it)
                && let Some(before) = stored.ends.replace(expires)
            {
                self.ends.remove(&(before, address.clone()));
                self.ends.insert((expires, address.clone()));
            }
        }
    }

    /// Removes the cells of a lease, and returns their addresses.
    pub fn end(&mut self, is_it: impl Fn(&L) -> bool) -> Vec<Address> {
        let is_on = |stored: &StoredCell<L>| stored.lease.as_ref().is_some_and(&is_it);
        let ended = self.cells.iter().filter(|(_, stored)| is_on(stored));
        let ended: Vec<_> = ended.map(|(address, _)| address.clone()).collect();
        ended.iter().for_each(|address| drop(self.take(address)));
        ended
    }

    /// Removes the cells whose lease or time to idle has ended, and returns their addresses.
    pub fn prune(&mut self, now: Micros) -> Vec<Address> {
        let mut removed = Vec::new();
        while let Some((_, address)) = self.ends.first().filter(|(ends, _)| *ends <= now) {
            let address = address.clone();
            self.take(&address);
            removed.push(address);
        }
        removed
    }

    /// Returns when this cell ends without a renewal or a use.
    pub fn expires(&self, address: &Address) -> Option<Micros> {
        self.cells.get(address)?.ends
    }

    /// Removes all cells. The sequence of versions continues.
    pub fn emptied(self) -> Self {
        Self { last: self.last, ..Self::default() }
    }

    /// Returns the addresses of all cells.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.cells.keys()
    }

    /// Returns the cells of a prefix after the encoded key `after`, in that order (CELL-LIST).
    /// [`prune`](Self::prune) first.
    pub fn list(&self, of: &QueuePrefix, after: &str, most: usize) -> Page<ListedKey> {
        let found = self.cells.iter().filter(|(cell, _)| of.contains(cell) && cell.coded() > after);
        let keys = found.map(|(cell, stored)| ListedKey::new(cell.clone(), stored.life())).collect();
        Page::in_order(keys, most)
    }

    fn take(&mut self, address: &Address) -> Option<StoredCell<L>> {
        let stored = self.cells.remove(address)?;
        self.ends_at(address, stored.ends, None);
        Some(stored)
    }

    fn ends_at(&mut self, address: &Address, before: Option<Micros>, after: Option<Micros>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.ends.remove(&(before, address.clone()));
        }
        self.ends.extend(after.map(|after| (after, address.clone())));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::address::Kind;
    use crate::contracts::Expected;

    fn ends(store: &CellStore<u8>) -> Vec<(Micros, String)> {
        let named = |(ends, address): &(Micros, Address)| (*ends, address.name().to_owned());
        let noted: Vec<_> = store.ends.iter().map(named).collect();
        let all = store.cells.iter().filter_map(|(address, stored)| Some((stored.ends?, address.clone())));
        let mut all: Vec<_> = all.collect();
        all.sort();
        assert_eq!(noted, all.iter().map(named).collect::<Vec<_>>());
        noted
    }

    #[test]
    fn ends_of_cells_follow_each_write_use_renewal_and_deletion() {
        let mut store = CellStore::default();
        let address = |name: &str| Address::new("n", Kind::Value, name.to_owned()).expect("a good key");
        let write = |life| CellWrite { expected: Expected::Any, value: Some(Arc::from(*b"x")), life };
        let idle = CellLife::Idle(TimeToIdle::new(Duration::from_secs(1)).expect("in range"));
        store.write(0, &address("stays"), &write(CellLife::Stays), (1, 0));
        assert_eq!(ends(&store), []);
        store.write(0, &address("idle"), &write(idle), (1, 0));
        store.write(0, &address("leased"), &write(CellLife::Lease), (1, 10));
        store.write(0, &address("other"), &write(CellLife::Lease), (2, 20));
        store.read(5, &address("idle"));
        store.renew(|lease| *lease == 1, 30);
        let at = |ends, name: &str| (ends, name.to_owned());
        assert_eq!(ends(&store), [at(20, "other"), at(30, "leased"), at(1_000_005, "idle")]);
        assert_eq!(store.prune(20), [address("other")]);
        store.write(20, &address("leased"), &write(CellLife::Stays), (1, 0));
        store.write(20, &address("idle"), &CellWrite::deletion(Expected::Any), (1, 0));
        assert_eq!((ends(&store), store.prune(Micros::MAX)), (vec![], vec![]));
        store.write(20, &address("leased"), &write(CellLife::Lease), (1, 40));
        assert_eq!(store.end(|lease| *lease == 1), [address("leased")]);
        assert_eq!(ends(&store), []);
    }
}
