use std::time::Instant;

use latchwork_core::backend::{Backoff, MAX_CELL_BYTES, Pauses, VersionedValue};
use latchwork_core::{Error, ErrorKind, Result, Version};
use tokio::time::timeout;

use crate::cell_lease::CellLease;
use crate::driver::{Found, StoredKey};
use crate::error::SILENT;
use crate::queue::context::NodeContext;

/// One request, or two if a use of an idle cell must be reported (CELL-IDLE). The request timeout limits both
/// together.
pub(crate) async fn read(context: &NodeContext, key: &str) -> Result<Option<VersionedValue>> {
    let driver = &context.driver;
    let begun = Instant::now();
    let mut gone = false;
    let read = timeout(driver.request_timeout, until_it_stands(context, key, &mut gone)).await;
    read.unwrap_or_else(|_elapsed| {
        let why =
            if gone { "the cell's lease has ended, but the server still shows the cell" } else { SILENT };
        Err(Error::new(ErrorKind::Unavailable, why).tried("a read", driver.link.host(), begun.elapsed()))
    })
}

/// Reads until the found cell does not end with its lease. Sets `gone` if it found a cell whose lease has
/// ended.
async fn until_it_stands(
    context: &NodeContext,
    key: &str,
    gone: &mut bool,
) -> Result<Option<VersionedValue>> {
    let mut backoff = Backoff::new(Pauses::IN_REQUEST);
    loop {
        let read = context.driver.get(key.as_bytes()).await?;
        let on = read.keys.first().and_then(|stored| CellLease::found(key, stored.lease));
        let cell = found(read)?;
        match on {
            // The cell ends with its lease, and no caller may see it now.
            Some(lease) if !context.cell_leases.used(lease).await? => {}
            Some(lease) => {
                return Ok(cell.map(|mut cell| {
                    cell.idle = lease.time();
                    cell
                }));
            }
            None => return Ok(cell),
        }
        *gone = true;
        backoff.wait(&context.leases.clock).await;
    }
}

pub(super) fn found(read: Found) -> Result<Option<VersionedValue>> {
    read.keys.into_iter().next().map(cell).transpose()
}

fn cell(stored: StoredKey) -> Result<VersionedValue> {
    let bytes = stored.value.len();
    if bytes <= MAX_CELL_BYTES {
        return Ok(VersionedValue::new(version(stored.modified), stored.value));
    }
    let key = String::from_utf8_lossy(&stored.key);
    let foreign = format!("has {bytes} bytes, and a cell has at most {MAX_CELL_BYTES}");
    Err(Error::new(
        ErrorKind::Conflict,
        format!("the key {key:?} belongs to another program: its value {foreign}"),
    ))
}

pub(super) fn version(revision: u64) -> Version {
    Version::new(revision, revision)
}
