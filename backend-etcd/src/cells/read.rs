//! Reading a cell.

use latchwork_core::contracts::{Cell, MAX_CELL_BYTES, Version};
use latchwork_core::{Error, ErrorKind, Result};

use crate::driver::{Driver, Found, StoredKey};

/// Reads a cell: one request.
pub(crate) async fn read(driver: &Driver, key: &str) -> Result<Option<Cell>> {
    found(driver.get(key.as_bytes()).await?)
}

/// The cell that a read of its key has found.
pub(super) fn found(read: Found) -> Result<Option<Cell>> {
    read.keys.into_iter().next().map(cell).transpose()
}

fn cell(stored: StoredKey) -> Result<Cell> {
    let bytes = stored.value.len();
    if bytes <= MAX_CELL_BYTES {
        return Ok(Cell { version: version(stored.modified), value: stored.value.into() });
    }
    let key = String::from_utf8_lossy(&stored.key);
    let foreign = format!("has {bytes} bytes, at most {MAX_CELL_BYTES} are a cell's");
    Err(Error::new(ErrorKind::Conflict, format!("{key:?} is another program's: it {foreign}")))
}

/// The version that a write at this revision has made.
pub(super) fn version(revision: u64) -> Version {
    Version::new(revision, revision)
}
