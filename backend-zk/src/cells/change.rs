use latchwork_core::backend::{CellWrite, VersionedValue};
use latchwork_core::{Expected, Version};

use super::condition::{Condition, kept};
use super::kept::Kept;
use crate::driver::Refusal;

/// One transaction on a cell. `None` as condition: any version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Overwrite(Option<Condition>),
    /// Deletes a cell and creates it again, with another life or on another session.
    Replace(Option<Condition>),
    Create,
    Delete(Option<Condition>),
    Nothing,
}

impl Change {
    /// The change to try without a read. `None`: read first.
    pub(super) fn first(write: &CellWrite) -> Option<Self> {
        match write.expected {
            Expected::Any => Self::on(write, Some(None)),
            Expected::Absent if write.value.is_none() => None,
            Expected::Absent => Some(Change::Create),
            Expected::Version(version) => Self::on(write, Some(Some(version))),
        }
    }

    /// `None`: the cell is not as expected.
    pub(super) fn on_read(write: &CellWrite, found: Option<&VersionedValue>) -> Option<Self> {
        Self::on(write, found.map(|cell| Some(cell.version)))
    }

    /// `found`: the cell's version, or `Some(None)` for any version.
    fn on(write: &CellWrite, found: Option<Option<Version>>) -> Option<Self> {
        let condition = match (write.expected, found) {
            (Expected::Any, _) => None,
            (Expected::Absent, None) => None,
            (Expected::Absent, Some(_)) => return None,
            // Two reads of one version can return two conditions, so only the numbers are compared.
            (Expected::Version(expected), Some(Some(found))) if found.number() == expected.number() => {
                Some(Condition::of(found))
            }
            (Expected::Version(_), _) => return None,
        };
        Some(match (&write.value, found) {
            // A server never changes the session of a node. Without knowledge, the cell counts as one that
            // stays.
            (Some(_), Some(found)) => match (Kept::of(write.life), found.map(kept)) {
                (Kept::Stays, None | Some(Kept::Stays)) => Change::Overwrite(condition),
                (Kept::ByLease | Kept::ByUse, _) | (Kept::Stays, Some(_)) => Change::Replace(condition),
            },
            (Some(_), None) => Change::Create,
            (None, Some(_)) => Change::Delete(condition),
            (None, None) => Change::Nothing,
        })
    }

    pub(super) fn condition(self) -> Option<Condition> {
        match self {
            Change::Overwrite(condition) | Change::Replace(condition) | Change::Delete(condition) => {
                condition
            }
            Change::Create | Change::Nothing => None,
        }
    }

    /// The next change after this one, without a condition, was refused.
    pub(super) fn instead(self, why: Refusal, life: Kept) -> Self {
        match (self, life) {
            (Change::Overwrite(_), _) if why == Refusal::ParentOfSession => Change::Replace(None),
            (Change::Overwrite(_) | Change::Replace(_), _) => Change::Create,
            (Change::Create, Kept::Stays) => Change::Overwrite(None),
            (Change::Create, Kept::ByLease | Kept::ByUse) => Change::Replace(None),
            (Change::Delete(_) | Change::Nothing, _) => Change::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::CellLife;

    use super::*;

    fn cell(mzxid: i64, generation: i32, life: Kept) -> VersionedValue {
        let condition = Condition { generation, data_version: 3 };
        VersionedValue::new(condition.version(mzxid, life), [])
    }

    #[test]
    fn the_cell_that_was_read_decides_the_change() {
        use CellLife::{Lease, Stays};
        let version = |of: &VersionedValue| Expected::Version(of.version);
        let (seven, other, fleeting) =
            (cell(7, 3, Kept::Stays), cell(8, 3, Kept::Stays), cell(7, 3, Kept::ByLease));
        let later = cell(7, 9, Kept::Stays);
        let checked = Some(Condition::of(seven.version));
        let over = |condition| Some(Change::Overwrite(condition));
        let anew = |condition| Some(Change::Replace(condition));
        let gone = |condition| Some(Change::Delete(condition));
        for (expected, found, stays, leased, deleted) in [
            (Expected::Any, None, Some(Change::Create), Some(Change::Create), Some(Change::Nothing)),
            (Expected::Any, Some(&seven), over(None), anew(None), gone(None)),
            (Expected::Any, Some(&fleeting), anew(None), anew(None), gone(None)),
            (Expected::Absent, None, Some(Change::Create), Some(Change::Create), Some(Change::Nothing)),
            (Expected::Absent, Some(&seven), None, None, None),
            (version(&seven), None, None, None, None),
            (version(&seven), Some(&other), None, None, None),
            (version(&seven), Some(&seven), over(checked), anew(checked), gone(checked)),
            (version(&later), Some(&seven), over(checked), anew(checked), gone(checked)),
            (version(&fleeting), Some(&fleeting), anew(checked), anew(checked), gone(checked)),
        ] {
            let write =
                |value: Option<&[u8]>, life| CellWrite { expected, value: value.map(Into::into), life };
            let changed = |write| Change::on_read(&write, found);
            let made = [
                changed(write(Some(b"1"), Stays)),
                changed(write(Some(b"1"), Lease)),
                changed(write(None, Stays)),
            ];
            assert_eq!(made, [stays, leased, deleted], "{expected:?} {found:?}");
        }
    }

    #[test]
    fn a_refusal_without_a_condition_says_what_to_try_next() {
        use Kept::{ByLease, Stays};
        use Refusal::{Exists, Missing, ParentOfSession};
        for (change, why, life, next) in [
            (Change::Overwrite(None), Missing, Stays, Change::Create),
            (Change::Overwrite(None), ParentOfSession, Stays, Change::Replace(None)),
            (Change::Replace(None), Missing, Stays, Change::Create),
            (Change::Replace(None), Missing, ByLease, Change::Create),
            (Change::Create, Exists, Stays, Change::Overwrite(None)),
            (Change::Create, Exists, ByLease, Change::Replace(None)),
            (Change::Delete(None), Missing, Stays, Change::Nothing),
        ] {
            assert_eq!(change.instead(why, life), next, "{change:?} {why:?} {life:?}");
        }
    }
}
