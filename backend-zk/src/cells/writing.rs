//! The parts of a write that all servers share.

use std::sync::atomic::AtomicBool;

use latchwork_core::backend::{CellWrite, CellWritten};
use latchwork_core::{Error, ErrorKind};

use super::condition::Condition;
use super::kept::Kept;
use super::trouble::{Attempt, Trouble};
use crate::driver::{Beside, Commit, NodeMode, Operation, Stat};
use crate::layout::CellPaths;
use crate::lease::SessionLease;

pub(super) struct Writing<'a> {
    pub(super) lease: &'a SessionLease,
    pub(super) paths: &'a CellPaths,
    pub(super) write: &'a CellWrite,
    pub(super) held: Option<&'a str>,
    pub(super) in_flight: &'a AtomicBool,
}

impl<'a> Writing<'a> {
    pub(super) fn data(&self) -> &'a [u8] {
        self.write.value.as_deref().unwrap_or_default()
    }

    pub(super) fn checks(&self, condition: Option<Condition>) -> Vec<Operation<'a>> {
        let held = self.held.map(|path| Operation::Check { path, version: None });
        let generation = condition.map(|condition| Operation::Check {
            path: &self.paths.directory,
            version: Some(condition.generation),
        });
        held.into_iter().chain(generation).collect()
    }

    /// The steps also raise the generation.
    pub(super) fn creation(&self) -> [Operation<'a>; 2] {
        let (data, mode) = (self.data(), Kept::of(self.write.life).mode());
        [
            Operation::Write { path: &self.paths.directory, data: &[], version: None },
            Operation::Create { path: &self.paths.cell, data, mode },
        ]
    }

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

    /// `deleted`: a cell was deleted. `over`: the generation before an overwrite, or `None` if the cell was
    /// created. `written`: the stat of the cell, or of the directory if the cell was created: one transaction
    /// has one number.
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
            let why = "the server wrote the cell, but its answer has no version";
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
