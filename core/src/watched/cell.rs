//! Cells, as they are watched.

use super::Reader;
use crate::address::Address;
use crate::contracts::{Backend, ChangeWatch, VersionedValue};
use crate::error::{Error, LostReason, Result};

/// Reads a cell.
#[derive(Debug, Default)]
pub(crate) struct CellReader {
    // The highest version that was read.
    last: u64,
}

impl Reader for CellReader {
    type State = Option<VersionedValue>;

    fn watch(backend: &dyn Backend, cell: &Address) -> Box<dyn ChangeWatch> {
        backend.watch_cell(cell)
    }

    async fn read(&mut self, backend: &dyn Backend, cell: &Address) -> Result<Self::State> {
        let cell = backend.read_cell(cell).await?;
        if let Some(cell) = &cell {
            let number = cell.version.number();
            if number < self.last {
                return Err(Error::lost(LostReason::Forgotten));
            }
            self.last = number;
        }
        Ok(cell)
    }
}
