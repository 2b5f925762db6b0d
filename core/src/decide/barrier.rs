//! The passages of a barrier, as a function of its cell and its queue.
//!
//! *Protocol.* A member that enters joins a queue that admits every node; its place is a sequence number. The
//! cell has two sequence numbers: all members up to `passed` have passed the barrier, and all up to `left`
//! have left it again. A member that sees n nodes after `passed` in the queue sets `passed` to the n-th of
//! them, by a compare-and-set. A member passes when `passed` has reached its number.
//!
//! *Why it is safe.* Sequence numbers rise in the order of joining, for ever (NODE-ORDER). So the members of
//! one passage lie between two values of `passed`, and a late member has a higher number and belongs to the
//! next passage: a barrier is cyclic without a count of rounds. `passed` only rises, under a compare-and-set,
//! so no two members see different passages. The queue is read after the cell: the nodes after `passed` have
//! not passed, since the compare-and-set is refused if another member was faster.
//!
//! The last member to leave deletes the cell if its version is the same as when the queue was seen to be empty.
//! A member that joins later has a number above the numbers of all members that have passed. So a barrier that
//! begins at 0 again keeps no member out and lets no member through.
//!
//! *Why no member waits for ever.* The last of n members to join sees n nodes when it reads the queue after
//! its join, so no member needs an event of a join. The node of a dead member is removed with its lease;
//! members that wait for it re-check regularly.

use std::fmt;
use std::str::FromStr;

/// The progress of a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// All members up to this sequence number have passed.
    pub passed: u64,
    /// All members up to this sequence number have left again.
    pub left: u64,
}

impl Passage {
    /// Returns the passage after this one, if `parties` nodes are after it in the queue. `standing` are the
    /// sequence numbers in the queue, in order, read after the passage. With `emptied`, the next passage
    /// waits until the last member has left.
    pub fn next(
        self,
        parties: usize,
        emptied: bool,
        standing: impl IntoIterator<Item = u64>,
    ) -> Option<Self> {
        if emptied && self.left < self.passed {
            return None;
        }
        let behind: Vec<_> = standing.into_iter().filter(|sequence| *sequence > self.passed).collect();
        let passed = *behind.get(parties.checked_sub(1)?)?;
        // Earlier members have left, also if the cell was deleted since.
        let left = if emptied { behind[0] - 1 } else { self.left };
        Some(Self { passed, left })
    }

    /// Returns the passage after all its members have left, if the queue has none of them.
    pub fn emptied(self, standing: impl IntoIterator<Item = u64>) -> Option<Self> {
        let stays = standing.into_iter().any(|sequence| sequence <= self.passed);
        (!stays && self.left < self.passed).then_some(Self { left: self.passed, ..self })
    }
}

/// Writes the text of the cell.
impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.passed, self.left)
    }
}

/// The error for a text that is not a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPassage;

impl FromStr for Passage {
    type Err = NoPassage;

    fn from_str(text: &str) -> Result<Self, NoPassage> {
        let (passed, left) = text.split_once(' ').ok_or(NoPassage)?;
        match (passed.parse(), left.parse()) {
            (Ok(passed), Ok(left)) if left <= passed => Ok(Self { passed, left }),
            _ => Err(NoPassage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_barrier_passes_and_late_members_join_the_next() {
        let begun = Passage::default();
        assert_eq!(begun.next(3, false, [4, 7]), None);
        let first = begun.next(3, false, [4, 7, 9, 12]).expect("three stand");
        assert_eq!(first, Passage { passed: 9, left: 0 });
        // Members that have passed may remain in the queue for a while.
        assert_eq!(first.next(3, false, [4, 7, 9, 12, 13]), None);
        assert_eq!(first.next(3, false, [9, 12, 13, 14]), Some(Passage { passed: 14, left: 0 }));
        assert_eq!(begun.next(0, false, [4]), None);
    }

    #[test]
    fn a_barrier_that_is_left_together_is_entered_again_once_it_is_empty() {
        let inside = Passage { passed: 9, left: 0 };
        assert_eq!(inside.emptied([7, 12, 13]), None, "one of them is in the queue");
        assert_eq!(inside.next(2, true, [7, 12, 13]), None);
        let empty = inside.emptied([12, 13]).expect("all of them left");
        assert_eq!(empty, Passage { passed: 9, left: 9 });
        assert_eq!(empty.emptied([12, 13]), None, "it is said already");
        assert_eq!(empty.next(2, true, [12, 13]), Some(Passage { passed: 13, left: 11 }));
    }

    #[test]
    fn passage_text_reads_back_and_other_texts_are_refused() {
        let passage = Passage { passed: u64::MAX, left: 3 };
        assert_eq!(passage.to_string().parse(), Ok(passage));
        for other in ["", "1", "1 2", "2 1 ", "x 1", "2 x"] {
            assert_eq!(other.parse::<Passage>(), Err(NoPassage), "{other:?}");
        }
    }
}
