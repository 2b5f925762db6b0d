//! Writing a cell.

use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::backend::{CellWrite, CellWritten};
use latchwork_core::{CellLife, Error, ErrorKind, Expected, Moment};

use super::found::{Found, STAYS, look};
use super::plan::{Plan, Uses};
use super::read::report;
use crate::cell_uses::{CellUses, Use};
use crate::cells::condition::Condition;
use crate::cells::kept::Kept;
use crate::cells::trouble::{Attempt, Trouble, has_children, used_up, written_stat};
use crate::driver::{Beside, Commit, NodeMode, Operation, Refusal, Stat};
use crate::layout::{CellPaths, in_directory};
use crate::lease::SessionLease;

/// One write under way.
pub(in crate::cells) struct IdleWrite<'a> {
    pub(in crate::cells) lease: &'a SessionLease,
    pub(in crate::cells) uses: &'a CellUses,
    pub(in crate::cells) paths: &'a CellPaths,
    pub(in crate::cells) write: &'a CellWrite,
    pub(in crate::cells) held: Option<&'a str>,
    pub(in crate::cells) in_flight: &'a AtomicBool,
}

/// Writes a cell. One trip where the version says enough, or nothing is to be there; else two, and two
/// more for each change that comes between. `None`: the holder's node is not there.
pub(in crate::cells) async fn write(writing: &IdleWrite<'_>) -> Attempt<Option<CellWritten>> {
    let mut next = Plan::at_once(writing.write, &writing.paths.cell, writing.uses);
    loop {
        let (plan, found) = match next.take() {
            Some(next) => next,
            None => {
                let found = look(writing.lease, writing.paths).await?;
                (Plan::of(writing.write, found.as_ref()), found)
            }
        };
        if plan == Plan::Refuse {
            return Ok(Some(CellWritten::Refused(found.and_then(|found| found.cell))));
        }
        match writing.attempt(plan, found.as_ref()).await? {
            IdleTry::Done(written) => return Ok(Some(written)),
            IdleTry::NotHeld => return Ok(None),
            IdleTry::Otherwise => {}
            IdleTry::NoDirectory => {
                writing.lease.driver.make_path(&writing.paths.directory, NodeMode::Persistent).await?;
                next = Some((Plan::Create, None));
            }
        }
    }
}

/// What came of one transaction.
enum IdleTry {
    Done(CellWritten),
    NotHeld,
    /// It is not what was found any more.
    Otherwise,
    NoDirectory,
}

/// The paths of the children that a write touches, and what it makes of them.
struct Children {
    checked: Option<String>,
    deleted: Vec<String>,
    made: Option<(String, NodeMode)>,
    // The use that is made.
    reported: Option<Use>,
}

impl IdleWrite<'_> {
    async fn attempt(&self, plan: Plan, found: Option<&Found>) -> Attempt<IdleTry> {
        let exact = found.filter(|found| plan.is_exact(self.write, found)).map(|found| found.condition);
        if exact.is_some_and(|condition| !condition.is_compared()) {
            return Err(Trouble::Refused(used_up(self.paths)));
        }
        let children = self.children(plan, found);
        let steps = self.steps(plan, exact, &children);
        if steps.is_empty() {
            return Ok(IdleTry::Done(CellWritten::Deleted { was_there: false }));
        }
        let sent = self.uses.now();
        // The generation must be read before the write: no older cell then has the version that is
        // answered.
        let beside = match found {
            Some(found) if found.is_guess => Beside::Before(&self.paths.directory),
            _ => Beside::Nothing,
        };
        match self.lease.driver.commit(&steps, beside, self.in_flight).await? {
            Commit::Refused { at: 0, why: Refusal::Missing, .. } if self.held.is_some() => {
                Ok(IdleTry::NotHeld)
            }
            Commit::Refused { why: Refusal::HasChildren, .. }
                if found.is_some_and(|found| found.is_foreign) =>
            {
                Err(Trouble::Refused(has_children(self.paths)))
            }
            Commit::Refused { why: Refusal::Missing, .. } if plan == Plan::Create => Ok(IdleTry::NoDirectory),
            Commit::Refused { .. } => Ok(IdleTry::Otherwise),
            Commit::Made { written, before } => {
                let generation = match (found, before) {
                    (Some(found), _) if !found.is_guess => found.condition.generation,
                    (_, before) => before.map_or(0, |directory| directory.version),
                };
                let answer = self.made(plan, generation, written)?;
                self.used(children, sent).await?;
                Ok(IdleTry::Done(answer))
            }
        }
    }

    fn children(&self, plan: Plan, found: Option<&Found>) -> Children {
        let path = |name: &str| in_directory(&self.paths.cell, name);
        let made = match self.write.life {
            CellLife::Idle(time) if self.write.value.is_some() => Some(Use::new(time)),
            _ => None,
        };
        match (plan, found) {
            (Plan::Overwrite, Some(found)) => {
                let Some(new) = made else {
                    let checked = found.stays.then(|| path(STAYS));
                    return Children { checked, deleted: Vec::new(), made: None, reported: None };
                };
                let (last, counting) =
                    (self.uses.last(&self.paths.cell), self.uses.counting(&self.paths.cell));
                let Uses { checked, deleted, made } = found.used(last.as_ref(), new, counting.as_ref());
                Children {
                    checked: checked.as_deref().map(path),
                    deleted: deleted.as_deref().map(path).into_iter().collect(),
                    made: made.as_ref().map(|it| (path(&it.name), NodeMode::Lives(it.lives()))),
                    reported: made,
                }
            }
            _ => {
                let stays = self.write.value.is_some() && self.write.life == CellLife::Stays;
                let of_use = made.as_ref().map(|it| (path(&it.name), NodeMode::Lives(it.lives())));
                Children {
                    checked: None,
                    deleted: found.iter().flat_map(|found| found.children()).map(path).collect(),
                    made: of_use.or_else(|| stays.then(|| (path(STAYS), NodeMode::Persistent))),
                    reported: made,
                }
            }
        }
    }

    fn steps<'b>(
        &'b self,
        plan: Plan,
        exact: Option<Condition>,
        children: &'b Children,
    ) -> Vec<Operation<'b>> {
        let (directory, path) = (self.paths.directory.as_str(), self.paths.cell.as_str());
        let data = self.write.value.as_deref().unwrap_or_default();
        let mut steps: Vec<_> =
            self.held.map(|path| Operation::Check { path, version: None }).into_iter().collect();
        let generation = exact.map(|condition| condition.generation);
        steps.extend(generation.map(|version| Operation::Check { path: directory, version: Some(version) }));
        // What is expected of the data alone, a write of anything does not expect.
        let is_any = self.write.expected == Expected::Any && plan == Plan::Overwrite;
        let version = exact.filter(|_| !is_any).map(|condition| condition.data_version);
        steps.extend(children.checked.iter().map(|path| Operation::Check { path, version: None }));
        let deleted = children.deleted.iter().map(|path| Operation::Delete { path, version: None });
        let made =
            children.made.iter().map(|(path, mode)| Operation::Create { path, data: &[], mode: *mode });
        match plan {
            Plan::Refuse | Plan::Nothing => {}
            Plan::Overwrite => {
                steps.push(Operation::Write { path, data, version });
                steps.extend(made.chain(deleted));
            }
            Plan::Delete => {
                steps.extend(deleted);
                steps.push(Operation::Delete { path, version });
            }
            Plan::Create | Plan::Replace => {
                if plan == Plan::Replace {
                    steps.extend(deleted);
                    steps.push(Operation::Delete { path, version });
                }
                let mode = match Kept::of(self.write.life) {
                    Kept::Stays => NodeMode::Persistent,
                    Kept::ByLease => NodeMode::Ephemeral,
                    Kept::ByUse => NodeMode::Container,
                };
                steps.push(Operation::Write { path: directory, data: &[], version: None });
                steps.push(Operation::Create { path, data, mode });
                steps.extend(made);
            }
        }
        steps
    }

    /// The answer to what was made. `written` is the cell, or the directory of a cell that was made;
    /// `generation` is of before an overwrite.
    fn made(&self, plan: Plan, generation: i32, written: Option<Stat>) -> Attempt<CellWritten> {
        let was_there = match plan {
            Plan::Delete => Some(true),
            Plan::Nothing | Plan::Refuse => Some(false),
            Plan::Create | Plan::Overwrite | Plan::Replace => None,
        };
        if let Some(was_there) = was_there {
            return Ok(CellWritten::Deleted { was_there });
        }
        let stat = written_stat(self.lease, written)?;
        let condition = match plan {
            Plan::Overwrite => Condition { generation, data_version: stat.version },
            _ => Condition { generation: stat.version, data_version: 0 },
        };
        Ok(CellWritten::Written(condition.version(stat.mzxid, Kept::of(self.write.life))))
    }

    /// Sees to it that the write counts as a use from now on.
    async fn used(&self, children: Children, sent: Moment) -> Attempt<()> {
        let cell = &self.paths.cell;
        if let Some(reported) = children.reported {
            self.uses.note(cell, reported, sent);
            return Ok(());
        }
        let (CellLife::Idle(time), Some(last)) = (self.write.life, self.uses.last(cell)) else {
            return Ok(());
        };
        if self.write.value.is_none() || self.uses.counting(cell).is_some() {
            return Ok(());
        }
        // The answer came so late that the last use does not count for this one any more. The cell is written: who
        // gives up from here on must not be told that it is not (COUNT-SAYS-UNKNOWN).
        self.in_flight.store(true, Ordering::Release);
        let unknown = |why| Trouble::Refused(Error::new(ErrorKind::OutcomeUnknown, why));
        match report(self.lease, self.uses, self.paths, time, (&last.name, Some(&last))).await {
            Ok(true) => Ok(()),
            Ok(false) => {
                Err(unknown("the cell was written, and had gone, or was written anew, before the answer"))
            }
            Err(_) => Err(unknown("the cell was written, and may go too early")),
        }
    }
}
