//! Writes on a server without nodes with a TTL.

use latchwork_core::Expected;
use latchwork_core::backend::CellWritten;

use super::change::Change;
use super::kept::Kept;
use super::read::{cell_in, look};
use super::trouble::{Attempt, Trouble};
use super::writing::Writing;
use crate::driver::{Beside, Commit, NodeMode, Operation, Refusal};
use crate::layout::in_directory;

/// Created and deleted in one transaction, which fails if the cell cannot have children.
const CHILD: &str = "latchwork";

pub(super) async fn write(writing: &Writing<'_>) -> Attempt<Option<CellWritten>> {
    let Writing { lease, paths, write, .. } = *writing;
    let child = in_directory(&paths.cell, CHILD);
    let (mut next, mut read) = (Change::first(write), None);
    loop {
        let change = match next.take() {
            Some(change) => change,
            None => {
                let found = match read.take() {
                    Some(found) => found,
                    None => look(lease, paths).await?,
                };
                let Some(change) = Change::on_read(write, found.as_ref()) else {
                    return Ok(Some(CellWritten::Refused(found)));
                };
                change
            }
        };
        let (condition, directory, path) = (change.condition(), &*paths.directory, &*paths.cell);
        let beside = match condition {
            // Read before the write, so that no older cell has the returned version.
            None if change == Change::Overwrite(None) => Beside::Before(directory),
            Some(_) if lease.contended.expects_refusal(path) => Beside::Behind { directory, path },
            _ => Beside::Nothing,
        };
        let commit = writing.commit(&steps(writing, change, &child), beside, condition).await?;
        if condition.is_some() {
            lease.contended.learn(path, matches!(commit, Commit::Refused { .. }));
        }
        match commit {
            Commit::Made { written, before } => {
                let before = || before.map_or(0, |directory| directory.version);
                let over = match change {
                    Change::Overwrite(over) => Some(over.map_or_else(before, |over| over.generation)),
                    _ => None,
                };
                return writing.answer(matches!(change, Change::Delete(_)), over, written).map(Some);
            }
            Commit::Refused { at: 0, why: Refusal::Missing, .. } if writing.held.is_some() => {
                return Ok(None);
            }
            Commit::Refused { why: Refusal::HasChildren, .. } => return Err(Trouble::has_children(paths)),
            Commit::Refused { why: Refusal::Missing, .. } if change == Change::Create => {
                writing.make_directory().await?;
                next = Some(Change::Create);
            }
            Commit::Refused { why, .. } if write.expected == Expected::Any => {
                next = Some(change.instead(why, Kept::of(write.life)));
            }
            Commit::Refused { found, .. } => read = found.map(cell_in),
        }
    }
}

fn steps<'a>(writing: &Writing<'a>, change: Change, child: &'a str) -> Vec<Operation<'a>> {
    let (path, data) = (writing.paths.cell.as_str(), writing.data());
    let mut steps = writing.checks(change.condition());
    let version = change.condition().map(|condition| condition.data_version);
    match change {
        Change::Overwrite(condition) => {
            steps.push(Operation::Write { path, data, version });
            if condition.is_none() {
                steps.push(Operation::Create { path: child, data: &[], mode: NodeMode::Persistent });
                steps.push(Operation::Delete { path: child, version: None });
            }
        }
        Change::Delete(_) | Change::Replace(_) => steps.push(Operation::Delete { path, version }),
        Change::Create | Change::Nothing => {}
    }
    if matches!(change, Change::Create | Change::Replace(_)) {
        steps.extend(writing.creation());
    }
    steps
}
