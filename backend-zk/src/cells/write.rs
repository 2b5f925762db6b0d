use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::backend::{CellWrite, CellWritten, no_idle_cells};
use latchwork_core::{Address, Result};

use super::kept::Kept;
use super::trouble::Trouble;
use super::writing::Writing;
use super::{idle, lasting};
use crate::error::{Fault, Unanswered};
use crate::layout::CellPaths;
use crate::lease::SessionLease;

const WHAT: &str = "write a cell";

/// One try, bounded by the request timeout. `None`: the node at `held` does not exist.
///
/// Usually one trip. A refused write then reads, in the same trip after recent refusals
/// ([`Contended`](crate::contended::Contended)). A write without a condition takes two trips if it creates
/// the cell.
pub(crate) async fn write(
    lease: &SessionLease,
    cell: &Address,
    write: &CellWrite,
    held: Option<&str>,
) -> Result<Option<CellWritten>> {
    if lease.cell_uses.is_none() && write.value.is_some() && Kept::of(write.life) == Kept::ByUse {
        return no_idle_cells();
    }
    let paths = CellPaths::of(cell)?;
    // Only a transaction without an answer makes the outcome unknown.
    let in_flight = AtomicBool::new(false);
    let writing = Writing { lease, paths: &paths, write, held, in_flight: &in_flight };
    let decided = async {
        match &lease.cell_uses {
            Some(uses) => idle::write(&writing, uses).await,
            None => lasting::write(&writing).await,
        }
    };
    let trouble = match tokio::time::timeout(lease.settings.request_timeout, decided).await {
        Ok(Ok(written)) => return Ok(written),
        Ok(Err(trouble)) => trouble,
        Err(_elapsed) => Trouble::Fault(Fault::Unknown(Unanswered::default())),
    };
    if matches!(trouble, Trouble::Fault(Fault::SessionOver)) {
        lease.over();
    }
    match trouble {
        Trouble::Refused(error) => Err(error),
        Trouble::Fault(fault) if in_flight.load(Ordering::Acquire) => Err(fault.error(WHAT)),
        Trouble::Fault(fault) => Err(fault.error_without_trace(WHAT)),
    }
}
