use latchwork_core::backend::VersionedValue;
use latchwork_core::{Address, Result};

use super::condition::version;
use super::idle;
use super::trouble::{Attempt, Trouble};
use crate::driver::InDirectory;
use crate::error::{Answer, Fault, Unanswered};
use crate::layout::CellPaths;
use crate::lease::SessionLease;

/// One trip, or two if the use must be reported.
pub(crate) async fn read(lease: &SessionLease, cell: &Address) -> Result<Option<VersionedValue>> {
    let paths = CellPaths::of(cell)?;
    let found = async {
        match &lease.cell_uses {
            Some(uses) => idle::read(lease, uses, &paths).await,
            None => look(lease, &paths).await,
        }
    };
    let late = || Err(Trouble::Fault(Fault::Unknown(Unanswered::default())));
    let read = tokio::time::timeout(lease.settings.request_timeout, found).await;
    read.unwrap_or_else(|_elapsed| late()).map_err(|trouble| match trouble {
        Trouble::Refused(error) => error,
        Trouble::Fault(fault) => fault.error_without_trace("read a cell"),
    })
}

pub(super) async fn look(lease: &SessionLease, paths: &CellPaths) -> Attempt<Option<VersionedValue>> {
    let answer: Answer<_> = lease.driver.sync_read_in(&paths.directory, &paths.cell).await;
    Ok(cell_in(answer?))
}

pub(super) fn cell_in((directory, node): InDirectory) -> Option<VersionedValue> {
    let (value, stat) = node?;
    Some(VersionedValue::new(version(directory, &stat), value))
}
