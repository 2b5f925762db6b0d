//! How several locks are acquired as one, so that two that do so never wait for each other for
//! ever.

use std::collections::BTreeMap;

/// What an acquisition of several locks does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Next {
    /// Try all of them at once, without waiting. What was acquired is given back whole when one is
    /// refused (GATHER-TRY-WHOLE).
    TryAll,
    /// Wait for this one, in canonical order, while all before it are held
    /// (GATHER-CANONICAL-ORDER).
    WaitFor(usize),
    /// All are held.
    Done,
}

/// One acquisition of several locks. Their numbers are their places in canonical order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Gather {
    locks: usize,
    held: usize,
    tried: bool,
}

impl Gather {
    /// An acquisition of this many locks. One lock alone needs no try: it is waited for.
    pub fn new(locks: usize) -> Self {
        Self { locks, held: 0, tried: locks == 1 }
    }

    /// What to do next.
    pub fn next(&self) -> Next {
        match self.held {
            held if held == self.locks => Next::Done,
            _ if !self.tried => Next::TryAll,
            held => Next::WaitFor(held),
        }
    }

    /// All were tried at once. If one was refused, the others are given back.
    pub fn tried(&mut self, all_admitted: bool) {
        self.tried = true;
        self.held = if all_admitted { self.locks } else { 0 };
    }

    /// The one that was waited for is held.
    pub fn admitted(&mut self) {
        self.held += 1;
    }

    /// One that was held was lost during the wait: the others are given back, and it begins again
    /// (GATHER-LOSS-BEGINS-AGAIN).
    pub fn lost(&mut self) {
        self.held = 0;
    }
}

/// The canonical order of locks: by key, the same in every process. Answers the places of the given
/// keys in that order.
///
/// # Errors
/// The places of two keys that are equal.
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
    fn the_order_is_that_of_the_keys_and_equal_ones_are_refused() {
        assert_eq!(canonical_order(["b", "a", "c"]), Ok(vec![1, 0, 2]));
        assert_eq!(canonical_order(["b", "a", "b"]), Err((0, 2)));
    }
}
