//! Reading a cell.

use latchwork_core::contracts::Cell;
use latchwork_core::{Address, Error, Result};

use super::condition::version;
use crate::driver::InDirectory;
use crate::error::{Answer, Fault};
use crate::layout::CellPaths;
use crate::lease::SessionLease;

pub(super) type Attempt<T> = std::result::Result<T, Trouble>;

/// What failed: a request, or a cell that cannot be changed so.
#[derive(Debug)]
pub(super) enum Trouble {
    Fault(Fault),
    Refused(Error),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Trouble::Fault(fault)
    }
}

/// Reads a cell, in one trip.
pub(crate) async fn read(lease: &SessionLease, cell: &Address) -> Result<Option<Cell>> {
    let paths = CellPaths::of(cell)?;
    look(lease, &paths).await.map_err(|trouble| match trouble {
        Trouble::Refused(error) => error,
        Trouble::Fault(fault) => fault.error_without_trace("read a cell"),
    })
}

/// The directory is read before the cell, see the [module](super).
pub(super) async fn look(lease: &SessionLease, paths: &CellPaths) -> Attempt<Option<Cell>> {
    let answer: Answer<_> = lease.driver.sync_read_in(&paths.directory, &paths.cell).await;
    Ok(cell_in(answer?))
}

pub(super) fn cell_in((directory, node): InDirectory) -> Option<Cell> {
    let (value, stat) = node?;
    Some(Cell { version: version(directory, &stat), value: value.into() })
}
