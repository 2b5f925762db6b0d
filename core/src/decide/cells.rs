//! Cells as a value: what a backend without a server keeps, and what the suite compares with.

use std::collections::HashMap;

use crate::address::Address;
use crate::contracts::{Cell, CellWrite, CellWritten, Version};

/// Versioned cells. Versions are numbers of one row for all of them, so that none comes twice.
#[derive(Debug, Default)]
pub struct CellStore {
    cells: HashMap<Address, Cell>,
    last: u64,
}

impl CellStore {
    /// The cell at this address.
    pub fn read(&self, address: &Address) -> Option<Cell> {
        self.cells.get(address).cloned()
    }

    /// Makes the change if the cell is as expected.
    pub fn write(&mut self, address: &Address, write: &CellWrite) -> CellWritten {
        let now = self.cells.get(address);
        if !write.expected.is_met_by(now.map(|cell| cell.version)) {
            return CellWritten::Refused(now.cloned());
        }
        let Some(value) = write.value.clone() else {
            return CellWritten::Deleted { was_there: self.cells.remove(address).is_some() };
        };
        self.last += 1;
        let version = Version::new(self.last, self.last);
        self.cells.insert(address.clone(), Cell { version, value });
        CellWritten::Written(version)
    }

    /// Without any cell. Versions go on.
    pub fn emptied(self) -> Self {
        Self { cells: HashMap::new(), last: self.last }
    }

    /// The addresses of all cells.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.cells.keys()
    }
}
