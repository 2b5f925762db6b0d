//! What a write does to what was found.

use latchwork_core::contracts::{CellLife, CellWrite, Expected};

use super::found::{Found, STAYS};
use crate::cell_uses::{CellUses, Use};
use crate::cells::kept::Kept;

/// What a write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    /// Nothing: the cell is not as expected.
    Refuse,
    /// Nothing: there is none to delete.
    Nothing,
    /// Makes a cell where there is no node.
    Create,
    /// Writes a cell that is kept as it is to be.
    Overwrite,
    /// Deletes the node that is there, and makes the cell anew.
    Replace,
    Delete,
}

impl Plan {
    pub(super) fn of(write: &CellWrite, found: Option<&Found>) -> Self {
        let cell = found.and_then(|found| found.cell.as_ref());
        if !write.expected.is_met_by(cell.map(|cell| cell.version)) {
            return Plan::Refuse;
        }
        match (&write.value, found) {
            (None, _) if cell.is_none() => Plan::Nothing,
            (None, _) => Plan::Delete,
            (Some(_), None) => Plan::Create,
            (Some(_), Some(found)) if cell.is_some() && found.is_kept_as(write.life) => Plan::Overwrite,
            (Some(_), Some(_)) => Plan::Replace,
        }
    }

    /// What is tried before anything was read: what a version says, or what is likely. The children
    /// show whether a guess is right.
    pub(super) fn at_once(write: &CellWrite, cell: &str, uses: &CellUses) -> Option<(Self, Option<Found>)> {
        let counting = || match write.life {
            CellLife::Idle(time) => uses.counting(cell).filter(|last| last.time == time),
            CellLife::Stays | CellLife::Lease => None,
        };
        match (&write.value, write.expected, write.life) {
            (None, Expected::Any, _) => Some((Plan::Delete, Some(Found::guess(None)))),
            (None, ..) => None,
            (Some(_), Expected::Absent, _) => Some((Plan::Create, None)),
            (Some(_), Expected::Any, CellLife::Stays) => Some((Plan::Overwrite, Some(Found::guess(None)))),
            (Some(_), Expected::Any, _) => Some(match counting() {
                Some(counting) => (Plan::Overwrite, Some(Found::guess(Some(counting)))),
                None => (Plan::Create, None),
            }),
            (Some(_), Expected::Version(version), life) => {
                let found = match (Kept::from_bits(version.number()), life) {
                    (Kept::Stays, CellLife::Stays) => Found::by(version, Vec::new()),
                    (Kept::ByUse, CellLife::Idle(_)) => Found::by(version, vec![counting()?]),
                    _ => return None,
                };
                Some((Plan::Overwrite, Some(found)))
            }
        }
    }

    /// Whether the server compares the node with what was found. Otherwise its children show that it
    /// is that node.
    pub(super) fn is_exact(self, write: &CellWrite, found: &Found) -> bool {
        let has_cell = found.cell.is_some();
        // A write of anything, over a plain node without a child: the generation shows that it still
        // is a plain one.
        let bare = self == Plan::Overwrite && found.kept == Kept::Stays && !found.stays;
        matches!(write.expected, Expected::Version(_)) || !has_cell || bare
    }
}

impl Found {
    /// The node of a lease is always made anew: a server changes nobody's session.
    fn is_kept_as(&self, life: CellLife) -> bool {
        match life {
            CellLife::Stays => self.kept == Kept::Stays,
            CellLife::Lease => false,
            // Without a use that can be found it is another program's.
            CellLife::Idle(_) => self.kept == Kept::ByUse && !self.uses.is_empty(),
        }
    }

    /// Its children that are ours.
    pub(super) fn children(&self) -> impl Iterator<Item = &str> {
        self.stays.then_some(STAYS).into_iter().chain(self.uses.iter().map(|it| it.name.as_str()))
    }

    /// What an overwrite does to the uses.
    pub(super) fn used(&self, last: Option<&Use>, new: &Use, counting: Option<&Use>) -> Uses {
        let is_here = |one: &Use| self.uses.iter().any(|it| it.name == one.name);
        let all_of_this_time = self.uses.iter().all(|it| it.time == new.time);
        match counting.filter(|one| is_here(one) && all_of_this_time) {
            Some(counting) => Uses { checked: Some(counting.name.clone()), deleted: Vec::new(), made: None },
            None => {
                let is_old = |it: &&Use| it.time != new.time || last.is_some_and(|last| last.name == it.name);
                let deleted: Vec<_> = self.uses.iter().filter(is_old).map(|it| it.name.clone()).collect();
                // One of them must still be there, or the container is about to go.
                let checked = self.uses.first().filter(|_| deleted.is_empty()).map(|it| it.name.clone());
                Uses { checked, deleted, made: Some(new.clone()) }
            }
        }
    }
}

/// What an overwrite does to the uses of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Uses {
    pub(super) checked: Option<String>,
    pub(super) deleted: Vec<String>,
    pub(super) made: Option<Use>,
}
