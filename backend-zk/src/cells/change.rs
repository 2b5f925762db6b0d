//! What a write tries next: decided from what it demands and what was found.

use latchwork_core::contracts::{Cell, CellWrite, Expected, Version};

use super::condition::Condition;

/// One transaction on a cell. `None` as a condition: the server compares nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Writes a cell that is there.
    Overwrite(Option<Condition>),
    /// Makes a cell where there is none.
    Create,
    /// Deletes a cell that is there.
    Delete(Option<Condition>),
    /// Deletes nothing, since there is none.
    Nothing,
}

impl Change {
    /// The change to try before anything was read. `None`: read first.
    pub(super) fn first(write: &CellWrite) -> Option<Self> {
        match write.expected {
            Expected::Any => Self::on(write, Some(None)),
            Expected::Absent if write.value.is_none() => None,
            Expected::Absent => Some(Change::Create),
            Expected::Version(version) => Self::on(write, Some(Some(version))),
        }
    }

    /// The change to try on the cell that was read. `None`: it is not as expected.
    pub(super) fn on_read(write: &CellWrite, found: Option<&Cell>) -> Option<Self> {
        Self::on(write, found.map(|cell| Some(cell.version)))
    }

    /// On the cell of this version, or of any that the server finds.
    fn on(write: &CellWrite, found: Option<Option<Version>>) -> Option<Self> {
        let condition = match (write.expected, found) {
            (Expected::Any, _) => None,
            (Expected::Absent, None) => None,
            (Expected::Absent, Some(_)) => return None,
            // A version is its number: the condition may be another one each time it is read.
            (Expected::Version(expected), Some(Some(found))) if found.number() == expected.number() => {
                Some(Condition::of(found))
            }
            (Expected::Version(_), _) => return None,
        };
        Some(match (&write.value, found) {
            (Some(_), Some(_)) => Change::Overwrite(condition),
            (Some(_), None) => Change::Create,
            (None, Some(_)) => Change::Delete(condition),
            (None, None) => Change::Nothing,
        })
    }

    pub(super) fn condition(self) -> Option<Condition> {
        match self {
            Change::Overwrite(condition) | Change::Delete(condition) => condition,
            Change::Create | Change::Nothing => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_core::contracts::CellLife;

    use super::*;

    fn cell(number: u64, condition: u64) -> Cell {
        Cell { version: Version::new(number, condition), value: [].into() }
    }

    #[test]
    fn the_cell_that_was_read_decides_the_change() {
        let version = |condition| Expected::Version(Version::new(7, condition));
        let (seven, other) = (cell(7, 3), cell(8, 3));
        let (checked, three) = (Some(Condition::of(seven.version)), version(3));
        for (expected, found, written, deleted) in [
            (Expected::Any, None, Some(Change::Create), Some(Change::Nothing)),
            (Expected::Any, Some(&seven), Some(Change::Overwrite(None)), Some(Change::Delete(None))),
            (Expected::Absent, None, Some(Change::Create), Some(Change::Nothing)),
            (Expected::Absent, Some(&seven), None, None),
            (three, None, None, None),
            (three, Some(&other), None, None),
            (three, Some(&seven), Some(Change::Overwrite(checked)), Some(Change::Delete(checked))),
            // Its generation is another one by now.
            (version(9), Some(&seven), Some(Change::Overwrite(checked)), Some(Change::Delete(checked))),
        ] {
            let value = Some([1].into());
            let write = CellWrite { expected, value, life: CellLife::Stays };
            assert_eq!(Change::on_read(&write, found), written, "{expected:?} {found:?}");
            let delete = CellWrite { expected, value: None, life: CellLife::Stays };
            assert_eq!(Change::on_read(&delete, found), deleted, "{expected:?} {found:?}");
        }
    }
}
