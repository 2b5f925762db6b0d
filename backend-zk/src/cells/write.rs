//! Writing a cell.

use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::backend::{CellWrite, CellWritten, no_idle_cells};
use latchwork_core::{Address, Error, ErrorKind, Result};

use super::condition::Condition;
use super::kept::Kept;
use super::trouble::{Attempt, Trouble};
use super::{idle, lasting};
use crate::driver::{Beside, Commit, NodeMode, Operation, Stat};
use crate::error::{Fault, Unanswered};
use crate::layout::CellPaths;
use crate::lease::SessionLease;

/// What the request is called in errors.
const WHAT: &str = "write a cell";

/// Writes or deletes a cell: one try, bounded by the request timeout. With `held` it is made only
/// while the node at that path stands. `None`: that node is not there, and nothing was made.
///
/// Mostly one trip. A refused write reads, which is one more, unless others have just refused writes
/// of this cell: then it reads in the same trip ([`Contended`](crate::contended::Contended)). A write
/// without a condition is two where it makes the cell.
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
    // Only a transaction without an answer makes the outcome unknown. All that came before it was
    // refused, so nothing was made.
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

/// One write under way.
pub(super) struct Writing<'a> {
    pub(super) lease: &'a SessionLease,
    pub(super) paths: &'a CellPaths,
    pub(super) write: &'a CellWrite,
    pub(super) held: Option<&'a str>,
    pub(super) in_flight: &'a AtomicBool,
}

impl<'a> Writing<'a> {
    /// The bytes to write. None for a deletion.
    pub(super) fn data(&self) -> &'a [u8] {
        self.write.value.as_deref().unwrap_or_default()
    }

    /// The first steps: the holder's node is there, and the directory has the generation of this condition.
    pub(super) fn checks(&self, condition: Option<Condition>) -> Vec<Operation<'a>> {
        let held = self.held.map(|path| Operation::Check { path, version: None });
        let generation = condition.map(|condition| Operation::Check {
            path: &self.paths.directory,
            version: Some(condition.generation),
        });
        held.into_iter().chain(generation).collect()
    }

    /// The steps that make the cell, and raise the generation.
    pub(super) fn creation(&self) -> [Operation<'a>; 2] {
        let (data, mode) = (self.data(), Kept::of(self.write.life).mode());
        [
            Operation::Write { path: &self.paths.directory, data: &[], version: None },
            Operation::Create { path: &self.paths.cell, data, mode },
        ]
    }

    /// Carries out the steps, if there are any. They compare this condition.
    pub(super) async fn commit(
        &self,
        steps: &[Operation<'_>],
        beside: Beside<'_>,
        condition: Option<Condition>,
    ) -> Attempt<Commit> {
        if condition.is_some_and(|condition| !condition.is_compared()) {
            return Err(Trouble::used_up(self.paths));
        }
        if steps.is_empty() {
            return Ok(Commit::Made { written: None, before: None });
        }
        Ok(self.lease.driver.commit(steps, beside, self.in_flight).await?)
    }

    pub(super) async fn make_directory(&self) -> Attempt<()> {
        Ok(self.lease.driver.make_path(&self.paths.directory, NodeMode::Persistent).await?)
    }

    /// The answer to what was made. `deleted`: whether a cell was. `over`: the generation before an overwrite;
    /// `None` where the cell was made. `written` is the cell, or the directory of a cell that was made: one
    /// transaction has one number.
    pub(super) fn answer(
        &self,
        deleted: bool,
        over: Option<i32>,
        written: Option<Stat>,
    ) -> Attempt<CellWritten> {
        if self.write.value.is_none() {
            return Ok(CellWritten::Deleted { was_there: deleted });
        }
        let Some(stat) = written else {
            let why = "the server has written a cell, and answered no stat of it";
            return Err(Trouble::Refused(Error::new(ErrorKind::OutcomeUnknown, why)));
        };
        self.lease.saw(stat.mzxid);
        let condition = match over {
            Some(generation) => Condition { generation, data_version: stat.version },
            None => Condition { generation: stat.version, data_version: 0 },
        };
        Ok(CellWritten::Written(condition.version(stat.mzxid, Kept::of(self.write.life))))
    }
}
