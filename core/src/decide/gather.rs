//! The acquisition of several locks as one, without deadlocks.

use std::collections::BTreeMap;

/// The next step of an acquisition of several locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Try all locks at once, without waiting. If one is refused, all are released (GATHER-TRY-WHOLE).
    TryAll,
    /// Wait for this lock, with all locks before it held (GATHER-CANONICAL-ORDER).
    WaitFor(usize),
    /// All locks are held.
    Done,
}

/// An acquisition of several locks. The number of a lock is its place in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    locks: usize,
    held: usize,
    tried: bool,
}

impl Gather {
    /// Begins an acquisition. A single lock is waited for without a try.
    pub fn new(locks: usize) -> Self {
        Self { locks, held: 0, tried: locks == 1 }
    }

    /// Returns the next step.
    pub fn next(&self) -> Next {
        match self.held {
            held if held == self.locks => Next::Done,
            _ if !self.tried => Next::TryAll,
            held => Next::WaitFor(held),
        }
    }

    /// Records a try of all locks at once. If one was refused, the others are released.
    pub fn tried(&mut self, all_admitted: bool) {
        self.tried = true;
        self.held = if all_admitted { self.locks } else { 0 };
    }

    /// Records that the awaited lock is held.
    pub fn admitted(&mut self) {
        self.held += 1;
    }

    /// Records the loss of a held lock during the wait. The others are released, and the acquisition begins
    /// again (GATHER-LOSS-BEGINS-AGAIN).
    pub fn lost(&mut self) {
        self.held = 0;
    }
}

/// Returns the places of the keys in canonical order, which is the same in every process. The error has the
/// places of two equal keys.
pub fn canonical_order<K: Ord>(keys: impl IntoIterator<Item = K>) -> Result<Vec<usize>, (usize, usize)> {
    let mut order = BTreeMap::new();
    for (place, key) in keys.into_iter().enumerate() {
        if let Some(before) = order.insert(key, place) {
            return Err((before, place));
        }
    }
    Ok(order.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::{Gather, Next, canonical_order};

    #[test]
    fn all_are_tried_once_and_then_waited_for_in_order() {
        let mut gather = Gather::new(2);
        assert_eq!(gather.next(), Next::TryAll);
        gather.tried(false);
        assert_eq!(gather.next(), Next::WaitFor(0));
        gather.admitted();
        assert_eq!(gather.next(), Next::WaitFor(1));
        gather.lost();
        assert_eq!(gather.next(), Next::WaitFor(0));
        gather.admitted();
        gather.admitted();
        assert_eq!(gather.next(), Next::Done);
    }

    #[test]
    fn a_try_that_all_admit_is_the_end_and_one_lock_is_only_waited_for() {
        let mut gather = Gather::new(3);
        gather.tried(true);
        assert_eq!(gather.next(), Next::Done);
        assert_eq!(Gather::new(1).next(), Next::WaitFor(0));
    }

    #[test]
    fn locks_are_ordered_by_key_and_duplicates_are_refused() {
        assert_eq!(canonical_order(["b", "a", "c"]), Ok(vec![1, 0, 2]));
        assert_eq!(canonical_order(["b", "a", "b"]), Err((0, 2)));
    }
}
