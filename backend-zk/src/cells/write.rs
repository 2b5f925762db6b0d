//! Writing a cell.

use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::backend::{CellWrite, CellWritten, VersionedValue, no_idle_cells};
use latchwork_core::{Address, Expected, Result};

use super::change::Change;
use super::condition::Condition;
use super::idle;
use super::kept::Kept;
use super::read::{cell_in, look};
use super::trouble::{Attempt, Trouble, has_children, used_up, written_stat};
use crate::driver::{Beside, Commit, NodeMode, Operation, Refusal, Stat};
use crate::error::{Fault, Unanswered};
use crate::layout::{CellPaths, in_directory};
use crate::lease::SessionLease;

/// What the request is called in errors.
const WHAT: &str = "write a cell";

/// The child of a cell that shows that the cell can have one. Nobody ever sees it.
const CHILD: &str = "latchwork";

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
    let (paths, in_flight) = (&paths, &in_flight);
    let decided = async {
        if let Some(uses) = &lease.cell_uses {
            return idle::write(&idle::IdleWrite { lease, uses, paths, write, held, in_flight }).await;
        }
        let child = in_directory(&paths.cell, CHILD);
        SimpleWrite { lease, paths, child: &child, write, held, in_flight }.until_decided().await
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
struct SimpleWrite<'a> {
    lease: &'a SessionLease,
    paths: &'a CellPaths,
    child: &'a str,
    write: &'a CellWrite,
    held: Option<&'a str>,
    in_flight: &'a AtomicBool,
}

/// What came of one transaction.
enum CellTry {
    Done(CellWritten),
    /// The holder's node is not there.
    NotHeld,
    /// The cell is not as this change needs it. What it is, where that was read too.
    Otherwise(Refusal, Option<Option<VersionedValue>>),
    /// There is no directory to make the cell in.
    NoDirectory,
}

impl SimpleWrite<'_> {
    /// Tries until the server has made it, or refused it for what the cell is.
    async fn until_decided(&self) -> Attempt<Option<CellWritten>> {
        let (mut next, mut read) = (Change::first(self.write), None);
        loop {
            let change = match next.take() {
                Some(change) => change,
                None => {
                    let found = match read.take() {
                        Some(found) => found,
                        None => look(self.lease, self.paths).await?,
                    };
                    let Some(change) = Change::on_read(self.write, found.as_ref()) else {
                        return Ok(Some(CellWritten::Refused(found)));
                    };
                    change
                }
            };
            match self.attempt(change).await? {
                CellTry::Done(written) => return Ok(Some(written)),
                CellTry::NotHeld => return Ok(None),
                CellTry::NoDirectory => {
                    self.lease.driver.make_path(&self.paths.directory, NodeMode::Persistent).await?;
                    next = Some(Change::Create);
                }
                // Without a condition the refusal says all that a read would.
                CellTry::Otherwise(why, _) if self.write.expected == Expected::Any => {
                    next = Some(change.instead(why, Kept::of(self.write.life)));
                }
                CellTry::Otherwise(_, found) => read = found,
            }
        }
    }

    async fn attempt(&self, change: Change) -> Attempt<CellTry> {
        let condition = change.condition();
        if condition.is_some_and(|condition| !condition.is_compared()) {
            return Err(Trouble::Refused(used_up(self.paths)));
        }
        let steps = self.steps(change);
        if steps.is_empty() {
            return Ok(CellTry::Done(CellWritten::Deleted { was_there: false }));
        }
        // The generation of a cell that is written over without a condition. It must be read before
        // the write: no older cell then has the version that is answered.
        let (directory, path) = (self.paths.directory.as_str(), self.paths.cell.as_str());
        let contended = &self.lease.contended;
        let beside = match change.condition() {
            None if change == Change::Overwrite(None) => Beside::Before(directory),
            Some(_) if contended.expects_refusal(path) => Beside::Behind { directory, path },
            _ => Beside::Nothing,
        };
        let commit = self.lease.driver.commit(&steps, beside, self.in_flight).await?;
        if condition.is_some() {
            contended.learn(path, matches!(commit, Commit::Refused { .. }));
        }
        match commit {
            Commit::Refused { at: 0, why: Refusal::Missing, .. } if self.held.is_some() => {
                Ok(CellTry::NotHeld)
            }
            Commit::Refused { why: Refusal::HasChildren, .. } => {
                Err(Trouble::Refused(has_children(self.paths)))
            }
            Commit::Refused { why: Refusal::Missing, .. } if change == Change::Create => {
                Ok(CellTry::NoDirectory)
            }
            Commit::Refused { why, found, .. } => Ok(CellTry::Otherwise(why, found.map(cell_in))),
            Commit::Made { written, before } => self.made(change, written, before).map(CellTry::Done),
        }
    }

    fn steps(&self, change: Change) -> Vec<Operation<'_>> {
        let (directory, path) = (self.paths.directory.as_str(), self.paths.cell.as_str());
        let data = self.write.value.as_deref().unwrap_or_default();
        let mut steps = Vec::with_capacity(5);
        steps.extend(self.held.map(|path| Operation::Check { path, version: None }));
        let generation = change.condition().map(|condition| condition.generation);
        steps.extend(generation.map(|version| Operation::Check { path: directory, version: Some(version) }));
        let version = change.condition().map(|condition| condition.data_version);
        match change {
            Change::Overwrite(condition) => {
                steps.push(Operation::Write { path, data, version });
                if condition.is_none() {
                    let mode = NodeMode::Persistent;
                    steps.push(Operation::Create { path: self.child, data: &[], mode });
                    steps.push(Operation::Delete { path: self.child, version: None });
                }
            }
            Change::Delete(_) | Change::Replace(_) => steps.push(Operation::Delete { path, version }),
            Change::Create | Change::Nothing => {}
        }
        if matches!(change, Change::Create | Change::Replace(_)) {
            let mode = match Kept::of(self.write.life) {
                Kept::Stays => NodeMode::Persistent,
                Kept::ByLease | Kept::ByUse => NodeMode::Ephemeral,
            };
            steps.push(Operation::Write { path: directory, data: &[], version: None });
            steps.push(Operation::Create { path, data, mode });
        }
        steps
    }

    /// The answer to a change that was made. `written` is the cell, or the directory of a cell that
    /// was made: one transaction has one number.
    fn made(&self, change: Change, written: Option<Stat>, before: Option<Stat>) -> Attempt<CellWritten> {
        match change {
            Change::Delete(_) => return Ok(CellWritten::Deleted { was_there: true }),
            Change::Nothing => return Ok(CellWritten::Deleted { was_there: false }),
            Change::Overwrite(_) | Change::Create | Change::Replace(_) => {}
        }
        let stat = written_stat(self.lease, written)?;
        let condition = match change {
            Change::Create | Change::Replace(_) => Condition { generation: stat.version, data_version: 0 },
            _ => {
                let generation = match change.condition() {
                    Some(condition) => condition.generation,
                    None => before.map_or(0, |directory| directory.version),
                };
                Condition { generation, data_version: stat.version }
            }
        };
        Ok(CellWritten::Written(condition.version(stat.mzxid, Kept::of(self.write.life))))
    }
}
