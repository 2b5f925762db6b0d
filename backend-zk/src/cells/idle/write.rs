use std::sync::atomic::Ordering;

use latchwork_core::backend::CellWritten;
use latchwork_core::{CellLife, Error, ErrorKind, Expected, Moment};

use super::found::{Found, STAYS, look};
use super::plan::{Plan, Uses};
use super::read::report;
use crate::cell_uses::{CellUses, Use};
use crate::cells::condition::Condition;
use crate::cells::trouble::{Attempt, Trouble};
use crate::cells::writing::Writing;
use crate::driver::{Beside, Commit, NodeMode, Operation, Refusal};
use crate::layout::in_directory;

/// One trip if the version says enough or the cell must not exist, otherwise two, and two more for each
/// foreign change. `None`: the holder's node does not exist.
pub(in crate::cells) async fn write(writing: &Writing<'_>, uses: &CellUses) -> Attempt<Option<CellWritten>> {
    let Writing { lease, paths, write, .. } = *writing;
    let mut next = Plan::at_once(write, &paths.cell, uses);
    loop {
        let (plan, found) = match next.take() {
            Some(next) => next,
            None => {
                let found = look(lease, paths).await?;
                (Plan::of(write, found.as_ref()), found)
            }
        };
        if plan == Plan::Refuse {
            return Ok(Some(CellWritten::Refused(found.and_then(|found| found.cell))));
        }
        let found = found.as_ref();
        let exact = found.filter(|found| plan.is_exact(write, found)).map(|found| found.condition);
        let children = Children::of(writing, uses, plan, found);
        let sent = uses.now();
        // Read before the write, so that no older cell has the returned version.
        let beside = match found {
            Some(found) if found.is_guess => Beside::Before(&paths.directory),
            _ => Beside::Nothing,
        };
        let commit = writing.commit(&steps(writing, plan, exact, &children), beside, exact).await?;
        match commit {
            Commit::Made { written, before } => {
                let generation = match found {
                    Some(found) if !found.is_guess => found.condition.generation,
                    _ => before.map_or(0, |directory| directory.version),
                };
                let over = (plan == Plan::Overwrite).then_some(generation);
                let answer = writing.answer(plan == Plan::Delete, over, written)?;
                used(writing, uses, children, sent).await?;
                return Ok(Some(answer));
            }
            Commit::Refused { at: 0, why: Refusal::Missing, .. } if writing.held.is_some() => {
                return Ok(None);
            }
            Commit::Refused { why: Refusal::HasChildren, .. }
                if found.is_some_and(|found| found.is_foreign) =>
            {
                return Err(Trouble::has_children(paths));
            }
            Commit::Refused { why: Refusal::Missing, .. } if plan == Plan::Create => {
                writing.make_directory().await?;
                next = Some((Plan::Create, None));
            }
            Commit::Refused { .. } => {}
        }
    }
}

#[derive(Default)]
struct Children {
    checked: Option<String>,
    deleted: Vec<String>,
    made: Option<(String, NodeMode)>,
    reported: Option<Use>,
}

impl Children {
    fn of(writing: &Writing<'_>, uses: &CellUses, plan: Plan, found: Option<&Found>) -> Self {
        let (cell, write) = (&writing.paths.cell, writing.write);
        let path = |name: &str| in_directory(cell, name);
        let of_use = |made: &Use| (path(&made.name), NodeMode::Lives(made.lives()));
        let made = match write.life {
            CellLife::Idle(time) if write.value.is_some() => Some(Use::new(time)),
            _ => None,
        };
        match (plan, found, made) {
            (Plan::Overwrite, Some(found), None) => {
                Self { checked: found.stays.then(|| path(STAYS)), ..Self::default() }
            }
            (Plan::Overwrite, Some(found), Some(new)) => {
                let (last, counting) = (uses.last(cell), uses.counting(cell));
                let Uses { checked, deleted, made } = found.used(last.as_ref(), new, counting.as_ref());
                Self {
                    checked: checked.as_deref().map(path),
                    deleted: deleted.as_deref().map(path).into_iter().collect(),
                    made: made.as_ref().map(of_use),
                    reported: made,
                }
            }
            (_, found, made) => {
                let stays = write.value.is_some() && write.life == CellLife::Stays;
                let deleted = found.iter().flat_map(|found| found.children()).map(path).collect();
                let stays = stays.then(|| (path(STAYS), NodeMode::Persistent));
                Self { checked: None, deleted, made: made.as_ref().map(of_use).or(stays), reported: made }
            }
        }
    }
}

fn steps<'a>(
    writing: &Writing<'a>,
    plan: Plan,
    exact: Option<Condition>,
    children: &'a Children,
) -> Vec<Operation<'a>> {
    let (path, data) = (writing.paths.cell.as_str(), writing.data());
    let mut steps = writing.checks(exact);
    // An unconditional write does not compare the data version.
    let is_any = writing.write.expected == Expected::Any && plan == Plan::Overwrite;
    let version = exact.filter(|_| !is_any).map(|condition| condition.data_version);
    steps.extend(children.checked.iter().map(|path| Operation::Check { path, version: None }));
    let deleted = children.deleted.iter().map(|path| Operation::Delete { path, version: None });
    let made = children.made.iter().map(|(path, mode)| Operation::Create { path, data: &[], mode: *mode });
    if plan == Plan::Overwrite {
        steps.push(Operation::Write { path, data, version });
        steps.extend(made.chain(deleted));
        return steps;
    }
    if matches!(plan, Plan::Delete | Plan::Replace) {
        steps.extend(deleted);
        steps.push(Operation::Delete { path, version });
    }
    if matches!(plan, Plan::Create | Plan::Replace) {
        steps.extend(writing.creation());
        steps.extend(made);
    }
    steps
}

async fn used(writing: &Writing<'_>, uses: &CellUses, children: Children, sent: Moment) -> Attempt<()> {
    let (cell, write) = (&writing.paths.cell, writing.write);
    if let Some(reported) = children.reported {
        uses.note(cell, reported, sent);
        return Ok(());
    }
    let (CellLife::Idle(time), Some(last)) = (write.life, uses.last(cell)) else { return Ok(()) };
    if write.value.is_none() || uses.counting(cell).is_some() {
        return Ok(());
    }
    // The last use does not cover this late answer. The cell is written, so the outcome for a caller that
    // gives up now is unknown (COUNT-SAYS-UNKNOWN).
    writing.in_flight.store(true, Ordering::Release);
    let unknown = |why| Trouble::Refused(Error::new(ErrorKind::OutcomeUnknown, why));
    match report(writing.lease, uses, writing.paths, time, (&last.name, Some(&last))).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(unknown(
            "the value was written, but it expired or was written again before the client could report the use",
        )),
        Err(_) => Err(unknown(
            "the value was written, but the client could not report the use: the server may delete the value \
             before its time to idle is over",
        )),
    }
}
