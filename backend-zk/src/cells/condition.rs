use latchwork_core::Version;

use super::kept::Kept;
use crate::driver::Stat;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) generation: i32,
    pub(super) data_version: i32,
}

impl Condition {
    pub(super) fn of(version: Version) -> Self {
        let [high, low] = [version.condition() >> 32, version.condition() & u64::from(u32::MAX)];
        let half = |bits: u64| u32::try_from(bits).unwrap_or_default().cast_signed();
        Self { generation: half(high), data_version: half(low) }
    }

    /// -1 means any version to the server.
    pub(super) fn is_compared(self) -> bool {
        self.generation != -1 && self.data_version != -1
    }

    /// The version of a cell that transaction `mzxid` has written. The upper bits of its 63 count elections:
    /// after 2^29 of them no bits remain for the life of the cell.
    pub(super) fn version(self, mzxid: i64, kept: Kept) -> Version {
        let half = |number: i32| u64::from(number.cast_unsigned());
        let number = mzxid.cast_unsigned() << 2 | kept.bits();
        Version::new(number, half(self.generation) << 32 | half(self.data_version))
    }
}

pub(super) fn kept(version: Version) -> Kept {
    Kept::from_bits(version.number())
}

/// `directory` was read before the cell. Only the creation of a cell makes the directory, so a missing one
/// counts as generation 0.
pub(super) fn version(directory: Option<Stat>, cell: &Stat) -> Version {
    let generation = directory.map_or(0, |directory| directory.version);
    Condition { generation, data_version: cell.version }.version(cell.mzxid, Kept::by(cell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_read_back_from_its_version() {
        for (generation, data_version) in [(0, 0), (1, 2), (-2, 7), (7, -2), (i32::MIN, i32::MAX), (-1, 5)] {
            let condition = Condition { generation, data_version };
            assert_eq!(condition.is_compared(), generation != -1);
            for number in [0, 77, i64::MAX >> 2] {
                for how in [Kept::Stays, Kept::ByLease, Kept::ByUse] {
                    let version = condition.version(number, how);
                    assert_eq!((Condition::of(version), kept(version)), (condition, how));
                    assert_eq!(number.cast_unsigned(), version.number() >> 2);
                }
            }
        }
        assert!(!Condition { generation: 3, data_version: -1 }.is_compared());
    }
}
