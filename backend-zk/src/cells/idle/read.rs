use std::sync::atomic::AtomicBool;

use latchwork_core::TimeToIdle;
use latchwork_core::backend::VersionedValue;

use super::found::look;
use crate::cell_uses::{CellUses, Use};
use crate::cells::kept::Kept;
use crate::cells::trouble::Attempt;
use crate::driver::{Beside, Commit, NodeMode, Operation};
use crate::layout::{CellPaths, in_directory};
use crate::lease::SessionLease;

/// One trip, and one more if the use must be reported.
pub(in crate::cells) async fn read(
    lease: &SessionLease,
    uses: &CellUses,
    paths: &CellPaths,
) -> Attempt<Option<VersionedValue>> {
    loop {
        let Some(found) = look(lease, paths).await? else { return Ok(None) };
        let Some(cell) = &found.cell else { return Ok(None) };
        let Some(there) = found.uses.first().filter(|_| found.kept == Kept::ByUse) else {
            return Ok(Some(cell.clone()));
        };
        if uses.counting(&paths.cell).is_some_and(|one| found.has(&one.name)) {
            return Ok(Some(cell.clone()));
        }
        let last = uses.last(&paths.cell).filter(|last| found.has(&last.name));
        if report(lease, uses, paths, there.time, (&there.name, last.as_ref())).await? {
            return Ok(Some(cell.clone()));
        }
    }
}

/// Replaces this session's last use if `there`, any use of the cell, still exists. Returns whether it did.
pub(super) async fn report(
    lease: &SessionLease,
    uses: &CellUses,
    paths: &CellPaths,
    time: TimeToIdle,
    (there, last): (&str, Option<&Use>),
) -> Attempt<bool> {
    let made = Use::new(time);
    let path = |name: &str| in_directory(&paths.cell, name);
    let (fresh, there, last) = (path(&made.name), path(there), last.map(|last| path(&last.name)));
    let mode = NodeMode::Lives(made.lives());
    let first = match &last {
        Some(path) => Operation::Delete { path, version: None },
        None => Operation::Check { path: &there, version: None },
    };
    let sent = uses.now();
    let steps = [first, Operation::Create { path: &fresh, data: &[], mode }];
    match lease.driver.commit(&steps, Beside::Nothing, &AtomicBool::new(false)).await? {
        Commit::Made { .. } => {
            uses.note(&paths.cell, made, sent);
            Ok(true)
        }
        Commit::Refused { .. } => Ok(false),
    }
}
