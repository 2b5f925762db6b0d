//! The passages of a barrier, as a function of its cell and its queue. `docs/protocol/cells.md` has the
//! protocol, and the BARRIER- rules have the reasons for each part of it.
//!
//! The data of a node is the member's id and its number of parties. The cell has the number of parties and
//! two sequence numbers: all members up to `passed` have passed the barrier, and all up to `left` have left
//! it.
//!
//! Sequence numbers rise for ever (NODE-ORDER), so the members of one passage lie between two values of
//! `passed`. A member reads the queue after the cell: the nodes after `passed` have not passed, since the
//! compare-and-set is refused if another member was faster. After a deletion of the cell the barrier begins
//! at 0. That keeps no member out and lets none through, because a later member has a number above all
//! members that have passed.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

use crate::contracts::{NodeId, QueueEntry};

/// A node of a member in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The sequence number of the node.
    pub sequence: u64,
    /// The member's id, the same in all its nodes.
    pub member: NodeId,
    /// The member's number of parties.
    pub parties: u32,
}

impl Place {
    /// Returns the place of a node, or `None` if it is not a member's.
    pub fn of(entry: &QueueEntry) -> Option<Self> {
        let (member, parties) = std::str::from_utf8(&entry.data).ok()?.split_once(' ')?;
        Some(Self {
            sequence: entry.sequence,
            member: NodeId::parse(member)?,
            parties: parties.parse().ok()?,
        })
    }

    /// Returns the data of a member's nodes.
    pub fn data(member: NodeId, parties: u32) -> Vec<u8> {
        format!("{member} {parties}").into_bytes()
    }
}

/// The progress of a barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    /// The sequence number up to which all members have passed.
    pub passed: u64,
    /// The sequence number up to which all members have left.
    pub left: u64,
    /// The number of members that pass together. 0: none is stored.
    pub parties: u32,
}

/// The next step of a member if the cell has another number of parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disagreement {
    /// It stores its own number.
    Store(Passage),
    /// It looks again: members of the last passage have not left.
    Wait,
    /// It gives up: other members use this number.
    Conflict(u32),
}

impl Passage {
    /// Returns the next passage, if enough members are in the queue after this one. `standing` are the
    /// members' nodes in order, read after the passage. With `emptied`, the next passage waits until the last
    /// member has left.
    pub fn next(self, emptied: bool, standing: impl IntoIterator<Item = Place>) -> Option<Self> {
        if emptied && self.left < self.passed {
            return None;
        }
        let mut last = HashMap::new();
        let counts = |place: &Place| place.sequence > self.passed && place.parties == self.parties;
        for place in standing.into_iter().filter(counts) {
            last.insert(place.member, place.sequence);
        }
        let mut counted: Vec<_> = last.into_values().collect();
        counted.sort_unstable();
        let nth = usize::try_from(self.parties.checked_sub(1)?).ok()?;
        let passed = *counted.get(nth)?;
        // The earlier members have left, even if the cell was deleted since.
        let left = if emptied { counted[0] - 1 } else { self.left };
        Some(Self { passed, left, ..self })
    }

    /// Decides for the member at `own`, whose number of parties is not the stored one (BARRIER-ONE-NUMBER).
    /// `all` are the members' nodes in order, read after the passage.
    pub fn disagrees(self, own: u64, parties: u32, emptied: bool, all: &[Place]) -> Disagreement {
        if self.parties == 0 {
            return Disagreement::Store(Self { parties, ..self });
        }
        let (earlier, standing) = all.split_at(all.partition_point(|place| place.sequence <= self.passed));
        let is_used = standing.iter().any(|place| place.parties == self.parties);
        let is_inside = emptied && !earlier.is_empty();
        if is_used || is_inside || own <= self.passed {
            return Disagreement::Conflict(self.parties);
        }
        match standing.first() {
            // That member stores its number.
            Some(first) if first.parties != parties => Disagreement::Conflict(first.parties),
            _ if earlier.is_empty() => Disagreement::Store(Self { parties, ..self }),
            _ => Disagreement::Wait,
        }
    }

    /// Returns the passage after the departure of all its members, if the queue has none of them.
    pub fn emptied(self, standing: impl IntoIterator<Item = u64>) -> Option<Self> {
        let stays = standing.into_iter().any(|sequence| sequence <= self.passed);
        (!stays && self.left < self.passed).then_some(Self { left: self.passed, ..self })
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.passed, self.left, self.parties)
    }
}

/// The error for a text that is not a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoPassage;

impl FromStr for Passage {
    type Err = NoPassage;

    fn from_str(text: &str) -> Result<Self, NoPassage> {
        let (passed, rest) = text.split_once(' ').ok_or(NoPassage)?;
        // Layout 1 has no number of parties.
        let (left, parties) = rest.split_once(' ').unwrap_or((rest, "0"));
        match (passed.parse(), left.parse(), parties.parse()) {
            (Ok(passed), Ok(left), Ok(parties)) if left <= passed => Ok(Self { passed, left, parties }),
            _ => Err(NoPassage),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::Claim;

    fn places(parties: u32, sequences: &[u64]) -> Vec<Place> {
        sequences.iter().map(|&sequence| place(sequence, sequence, parties)).collect()
    }

    fn place(sequence: u64, member: u64, parties: u32) -> Place {
        Place { sequence, member: NodeId::from_bytes(u128::from(member).to_be_bytes()), parties }
    }

    fn passage(passed: u64, left: u64, parties: u32) -> Passage {
        Passage { passed, left, parties }
    }

    #[test]
    fn full_barrier_passes_and_late_members_join_the_next() {
        let (begun, of) = (passage(0, 0, 3), |sequences: &[u64]| places(3, sequences));
        assert_eq!(begun.next(false, of(&[4, 7])), None);
        let first = begun.next(false, of(&[4, 7, 9, 12])).expect("three stand");
        assert_eq!(first, passage(9, 0, 3));
        // Members that have passed may remain in the queue for a while.
        assert_eq!(first.next(false, of(&[4, 7, 9, 12, 13])), None);
        assert_eq!(first.next(false, of(&[9, 12, 13, 14])), Some(passage(14, 0, 3)));
        assert_eq!(passage(0, 0, 0).next(false, places(0, &[4])), None);
    }

    #[test]
    fn member_with_two_nodes_counts_once_at_the_last_one() {
        let begun = passage(0, 0, 2);
        let (old, other, again) = (place(4, 1, 2), place(7, 2, 2), place(9, 1, 2));
        assert_eq!(begun.next(false, [old, again]), None);
        assert_eq!(begun.next(false, [old, other, again]), Some(passage(9, 0, 2)));
        assert_eq!(begun.next(true, [old, other, again]), Some(passage(9, 6, 2)));
        assert_eq!(begun.next(false, [old, other, place(8, 3, 2), again]), Some(passage(8, 0, 2)));
    }

    #[test]
    fn members_with_another_number_of_parties_do_not_count() {
        let mixed = [place(4, 1, 3), place(5, 2, 2), place(6, 3, 3), place(7, 4, 2)];
        assert_eq!(passage(0, 0, 3).next(false, mixed), None);
        assert_eq!(passage(0, 0, 2).next(false, mixed), Some(passage(7, 0, 2)));
    }

    #[test]
    fn number_of_parties_is_replaced_only_if_no_member_uses_it() {
        use Disagreement::{Conflict, Store, Wait};
        let stored = passage(6, 6, 3);
        let cases: [(&[Place], u64, bool, Disagreement); 8] = [
            (&[place(8, 1, 2)], 8, false, Store(passage(6, 6, 2))),
            (&[place(7, 2, 3), place(8, 1, 2)], 8, false, Conflict(3)),
            (&[place(8, 1, 2), place(9, 2, 3)], 8, false, Conflict(3)),
            (&[place(8, 1, 2), place(9, 2, 4)], 9, false, Conflict(2)),
            (&[place(7, 2, 4), place(8, 1, 2)], 8, false, Conflict(4)),
            (&[place(5, 2, 3), place(8, 1, 2)], 8, false, Wait),
            (&[place(5, 2, 3), place(8, 1, 2)], 8, true, Conflict(3)),
            (&[place(5, 1, 2)], 5, false, Conflict(3)),
        ];
        for (all, own, emptied, expected) in cases {
            let parties = all.iter().find(|place| place.sequence == own).map_or(0, |place| place.parties);
            assert_eq!(stored.disagrees(own, parties, emptied, all), expected, "{all:?}");
        }
        let none = passage(6, 6, 0);
        assert_eq!(none.disagrees(8, 2, false, &[place(5, 2, 3), place(8, 1, 2)]), Store(passage(6, 6, 2)));
    }

    #[test]
    fn node_without_the_data_of_a_member_has_no_place() {
        let member = NodeId::random();
        let entry = |data: &[u8]| QueueEntry {
            sequence: 4,
            claim: Claim::Shared,
            admitted: true,
            label: String::new(),
            age: None,
            lease_left: None,
            data: data.into(),
        };
        assert_eq!(
            Place::of(&entry(&Place::data(member, 7))),
            Some(Place { sequence: 4, member, parties: 7 })
        );
        let id = member.to_string();
        for other in ["", "stranger", "stranger 7", &id, &format!("{id} "), &format!("{id} x")] {
            assert_eq!(Place::of(&entry(other.as_bytes())), None, "{other:?}");
        }
        assert_eq!(Place::of(&entry(b"\xff")), None);
    }

    #[test]
    fn a_barrier_that_is_left_together_is_entered_again_once_it_is_empty() {
        let inside = passage(9, 0, 2);
        assert_eq!(inside.emptied([7, 12, 13]), None, "one of them is in the queue");
        assert_eq!(inside.next(true, places(2, &[7, 12, 13])), None);
        let empty = inside.emptied([12, 13]).expect("all of them left");
        assert_eq!(empty, passage(9, 9, 2));
        assert_eq!(empty.emptied([12, 13]), None, "it is said already");
        assert_eq!(empty.next(true, places(2, &[12, 13])), Some(passage(13, 11, 2)));
    }

    #[test]
    fn passage_text_reads_back_and_other_texts_are_refused() {
        let all = passage(u64::MAX, 3, u32::MAX);
        assert_eq!(all.to_string().parse(), Ok(all));
        assert_eq!("7 3".parse(), Ok(passage(7, 3, 0)), "layout 1");
        for other in ["", "1", "1 2", "2 1 ", "x 1", "2 x", "2 1 x", "2 1 3 4"] {
            assert_eq!(other.parse::<Passage>(), Err(NoPassage), "{other:?}");
        }
    }
}
