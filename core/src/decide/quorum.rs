//! The acquisition of a majority of locks, and its validity.

use std::cmp::Reverse;

/// Returns the size of a majority of this number of members.
pub fn majority(members: usize) -> usize {
    members / 2 + 1
}

/// Returns how long a hold of `need` members is valid: the `need`-th largest of the members' remaining times
/// (QUORUM-VALIDITY). `None` with fewer members.
pub fn valid_for<T: Ord>(need: usize, members: impl IntoIterator<Item = T>) -> Option<T> {
    let mut members: Vec<_> = members.into_iter().map(Reverse).collect();
    members.sort_unstable();
    members.into_iter().nth(need.checked_sub(1)?).map(|Reverse(left)| left)
}

/// The next step of an acquisition of a majority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextStep {
    /// Try all members at once, without waiting. Without a majority, all are released (QUORUM-TRY-WHOLE).
    TryAll,
    /// Wait for this member, with only earlier members held (QUORUM-WAIT-IN-ORDER).
    WaitFor(usize),
    /// Release everything, and begin again.
    Again,
    /// A majority is held.
    Done,
}

/// An acquisition of a majority. The number of a member is its place in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MajorityGather {
    members: usize,
    place: Option<usize>,
}

impl MajorityGather {
    /// Begins an acquisition.
    pub fn new(members: usize) -> Self {
        Self { members, place: None }
    }

    /// Returns the next step if `held` members are held.
    pub fn next(&self, held: usize) -> NextStep {
        match self.place {
            _ if held >= majority(self.members) => NextStep::Done,
            None => NextStep::TryAll,
            Some(place) if place < self.members => NextStep::WaitFor(place),
            Some(_) => NextStep::Again,
        }
    }

    /// Records a try of all members without a majority. If fewer than a majority have `answered`, a wait is
    /// of no use.
    pub fn tried(&mut self, answered: usize) {
        self.place = Some(if answered < majority(self.members) { self.members } else { 0 });
    }

    /// Records the end of the wait for a member: it is held, is unreachable, or does not count now.
    pub fn passed(&mut self) {
        self.place = self.place.map(|place| place + 1);
    }

    /// Begins again.
    pub fn again(&mut self) {
        self.place = None;
    }
}

#[cfg(test)]
mod tests {
    use super::{MajorityGather, NextStep, majority, valid_for};

    #[test]
    fn two_majorities_share_a_member() {
        for members in 1..10 {
            assert!(2 * majority(members) > members && 2 * (majority(members) - 1) <= members);
        }
    }

    #[test]
    fn a_hold_is_valid_as_long_as_its_qth_best_member() {
        assert_eq!(valid_for(2, [5, 9, 7]), Some(7));
        assert_eq!(valid_for(3, [1, 0, 4, 9, 3]), Some(3));
        assert_eq!(valid_for(1, [4]), Some(4));
        assert_eq!(valid_for(2, [4]), None);
        assert_eq!(valid_for(0, [4]), None);
    }

    #[test]
    fn all_are_tried_and_then_waited_for_in_order_until_a_majority_is_held() {
        let mut gathering = MajorityGather::new(3);
        assert_eq!(gathering.next(0), NextStep::TryAll);
        assert_eq!(gathering.next(2), NextStep::Done);
        gathering.tried(2);
        assert_eq!(gathering.next(0), NextStep::WaitFor(0));
        gathering.passed();
        assert_eq!(gathering.next(1), NextStep::WaitFor(1));
        gathering.passed();
        assert_eq!(gathering.next(2), NextStep::Done);
        // A wait for the lost member would go back in the order.
        assert_eq!(gathering.next(1), NextStep::WaitFor(2));
        gathering.passed();
        assert_eq!(gathering.next(1), NextStep::Again);
        gathering.again();
        assert_eq!(gathering.next(0), NextStep::TryAll);
    }

    #[test]
    fn minority_of_answers_causes_no_wait() {
        let mut gathering = MajorityGather::new(5);
        gathering.tried(2);
        assert_eq!(gathering.next(0), NextStep::Again);
    }
}
