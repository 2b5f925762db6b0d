use latchwork_core::Kind;

use crate::layout::{counter, is_used_up};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    pub(crate) counter: i32,
    pub(super) sequence: u64,
}

impl Birth {
    pub(crate) fn of(kind: Kind, name: &str, sequence: u64) -> Option<Self> {
        Some(Self { counter: counter(kind, name)?, sequence })
    }

    pub(super) fn follows(self, last: Self) -> bool {
        let (Ok(joins), Some(apart)) =
            (u64::try_from(last.counter), self.sequence.checked_sub(last.sequence))
        else {
            return false;
        };
        let next = last.counter.checked_add(1).filter(|&next| !is_used_up(Some(next)));
        next == Some(self.counter) && apart > 0 && apart <= joins
    }
}

pub(crate) fn right_before(counter: i32) -> Option<i32> {
    counter.checked_sub(1).filter(|&before| before >= 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn birth(counter: i32, sequence: u64) -> Birth {
        Birth { counter, sequence }
    }

    #[test]
    fn the_next_counter_is_the_same_directorys_when_no_other_can_have_come_so_far() {
        let last = birth(5, 1 << 33);
        for (next, follows) in [
            (birth(6, (1 << 33) + 2), true),
            (birth(6, (1 << 33) + 5), true),
            (birth(6, (1 << 33) + 6), false),
            (birth(6, 1 << 33), false),
            (birth(7, (1 << 33) + 2), false),
            (birth(5, (1 << 33) + 2), false),
            (birth(6, (1 << 33) + (1 << 32)), false),
        ] {
            assert_eq!(next.follows(last), follows, "{next:?}");
        }
        assert!(!birth(i32::MAX, 9).follows(birth(i32::MAX - 1, 7)));
        assert!(!birth(0, 9).follows(birth(i32::MAX, 7)));
        assert!(!birth(1, 5).follows(birth(0, 7)));
    }
}
