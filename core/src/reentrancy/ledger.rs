//! What owners hold, as a value (RULES D).

use std::collections::HashMap;
use std::hash::Hash;

use crate::decide::Claim;

/// Which acquisition of an owner and key: a guard carries it, so that a release of another does nothing (D1).
pub(crate) type Generation = u64;

/// How an owner holds, or asks to hold. A mutex knows only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    /// What a node must claim for it.
    pub(crate) fn claim(self) -> Claim {
        match self {
            Mode::Exclusive => Claim::Exclusive,
            Mode::Shared => Claim::Shared,
        }
    }
}

/// One entry per owner and key: none, acquiring, or held; the holds of a generation hang on one node, and are counted by mode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Entry<H> {
    Acquiring { generation: Generation, queued: bool },
    Held { generation: Generation, exclusive: usize, shared: usize, hold: H },
}

/// What a task that enters is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entered<H> {
    /// Nobody of this owner holds or acquires: acquire, then say [`Ledger::acquired`] or [`Ledger::gave_up`].
    Acquire(Generation),
    /// Another task of this owner acquires, and waits behind others if it is `queued`: wait for it, and enter again (D3).
    Join { queued: bool },
    /// Held, and by a writer if it asks to write: counted, no request. Who writes may read.
    Again(Generation, H),
    /// The owner reads, and asks to write: it would wait for itself.
    Deadlock,
}

/// What a release means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left<H> {
    /// Other holds of this generation remain, and the node stays as it is.
    Remaining,
    /// It was the last that writes, and some that read remain: the node is to be downgraded.
    Downgrade(H),
    /// It was the last: the node is to be given back. The entry is gone already, so that a later acquisition
    /// is a new one (D2).
    Last(H),
    /// The guard's generation is not there any more: it does nothing (D1).
    Stale,
}

/// The holds of all owners of a coordinator, by owner and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger<K: Eq + Hash, H> {
    entries: HashMap<K, Entry<H>>,
    last: Generation,
}

impl<K: Eq + Hash + Clone, H: Clone> Ledger<K, H> {
    /// An empty ledger.
    pub(crate) fn new() -> Self {
        Self { entries: HashMap::new(), last: 0 }
    }

    /// A task of an owner wants `key`. `is_lost` says whether a hold is lost: such an entry is cleared first,
    /// so that nobody re-enters a lost hold (D5).
    pub(crate) fn enter(&mut self, key: &K, mode: Mode, is_lost: impl FnOnce(&H) -> bool) -> Entered<H> {
        match self.entries.get_mut(key) {
            Some(Entry::Acquiring { queued, .. }) => return Entered::Join { queued: *queued },
            Some(Entry::Held { generation, exclusive, shared, hold }) if !is_lost(hold) => {
                match mode {
                    Mode::Exclusive if *exclusive == 0 => return Entered::Deadlock,
                    Mode::Exclusive => *exclusive += 1,
                    Mode::Shared => *shared += 1,
                }
                return Entered::Again(*generation, hold.clone());
            }
            _ => {}
        }
        self.last += 1;
        self.entries.insert(key.clone(), Entry::Acquiring { generation: self.last, queued: false });
        Entered::Acquire(self.last)
    }

    /// The acquisition of this generation was not admitted at once: others are before it.
    pub(crate) fn queued(&mut self, key: &K, of: Generation) {
        if let Some(Entry::Acquiring { generation, queued }) = self.entries.get_mut(key)
            && *generation == of
        {
            *queued = true;
        }
    }

    /// The acquisition of this generation succeeded: held once.
    pub(crate) fn acquired(&mut self, key: &K, generation: Generation, mode: Mode, hold: H) {
        if let Some(entry @ Entry::Acquiring { .. }) = self.entries.get_mut(key)
            && entry.generation() == generation
        {
            let (exclusive, shared) = match mode {
                Mode::Exclusive => (1, 0),
                Mode::Shared => (0, 1),
            };
            *entry = Entry::Held { generation, exclusive, shared, hold };
        }
    }

    /// The acquisition of this generation failed, or its task was dropped: whoever waits for it enters again, and one of
    /// them takes over (D4).
    pub(crate) fn gave_up(&mut self, key: &K, generation: Generation) {
        if let Some(entry @ Entry::Acquiring { .. }) = self.entries.get(key)
            && entry.generation() == generation
        {
            self.entries.remove(key);
        }
    }

    /// A guard of this generation and mode is released.
    pub(crate) fn leave(&mut self, key: &K, generation: Generation, mode: Mode) -> Left<H> {
        let Some(Entry::Held { generation: current, exclusive, shared, hold }) = self.entries.get_mut(key)
        else {
            return Left::Stale;
        };
        if *current != generation {
            return Left::Stale;
        }
        let count = match mode {
            Mode::Exclusive => &mut *exclusive,
            Mode::Shared => &mut *shared,
        };
        let Some(remaining) = count.checked_sub(1) else { return Left::Stale };
        *count = remaining;
        match (*exclusive, *shared) {
            (0, 0) => {
                let hold = hold.clone();
                self.entries.remove(key);
                Left::Last(hold)
            }
            (0, _) if mode == Mode::Exclusive => Left::Downgrade(hold.clone()),
            _ => Left::Remaining,
        }
    }

    /// A guard of this generation that writes is to read from now on: [`Left::Last`] is no answer to it.
    pub(crate) fn convert(&mut self, key: &K, generation: Generation) -> Left<H> {
        match self.entries.get_mut(key) {
            Some(Entry::Held { generation: current, shared, .. }) if *current == generation => *shared += 1,
            _ => return Left::Stale,
        }
        self.leave(key, generation, Mode::Exclusive)
    }

    /// Which generation there is now: for a fault of the model.
    #[cfg(test)]
    pub(super) fn generation(&self, key: &K) -> Option<Generation> {
        self.entries.get(key).map(Entry::generation)
    }

    /// What tells this ledger from others: a map has no hash.
    #[cfg(test)]
    pub(super) fn hash_of<S: std::hash::Hasher>(&self, key: &K, state: &mut S)
    where
        H: Hash,
    {
        (self.last, self.entries.get(key)).hash(state);
    }

    /// How often the owner holds `key` now: not at all where the hold is lost.
    pub(crate) fn count(&self, key: &K, is_lost: impl FnOnce(&H) -> bool) -> usize {
        match self.entries.get(key) {
            Some(Entry::Held { exclusive, shared, hold, .. }) if !is_lost(hold) => exclusive + shared,
            _ => 0,
        }
    }
}

impl<K: Eq + Hash + Clone, H: Clone> Default for Ledger<K, H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> Entry<H> {
    fn generation(&self) -> Generation {
        match self {
            Entry::Acquiring { generation, .. } | Entry::Held { generation, .. } => *generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Mode::{Exclusive, Shared};
    use super::*;

    /// A hold is named by the node that it has; `lost` are the nodes that are lost.
    type Book = Ledger<&'static str, u32>;

    fn enter(book: &mut Book, mode: Mode, lost: &[u32]) -> Entered<u32> {
        book.enter(&"k", mode, |node| lost.contains(node))
    }

    fn count(book: &Book, lost: &[u32]) -> usize {
        book.count(&"k", |node| lost.contains(node))
    }

    fn acquire(book: &mut Book, mode: Mode, node: u32, lost: &[u32]) -> Generation {
        let Entered::Acquire(generation) = enter(book, mode, lost) else { panic!("nobody holds") };
        book.acquired(&"k", generation, mode, node);
        generation
    }

    #[test]
    fn d1_a_release_of_an_older_generation_does_nothing() {
        let mut book = Book::new();
        let old = acquire(&mut book, Exclusive, 1, &[]);
        let new = acquire(&mut book, Exclusive, 2, &[1]);
        assert_eq!(book.leave(&"k", old, Exclusive), Left::Stale);
        assert_eq!(book.convert(&"k", old), Left::Stale);
        assert_eq!(count(&book, &[1]), 1);
        assert_eq!(count(&book, &[2]), 0, "what is lost is not held");
        assert_eq!(book.leave(&"k", new, Exclusive), Left::Last(2));
    }

    #[test]
    fn d2_after_the_last_release_an_acquisition_is_a_new_one() {
        let mut book = Book::new();
        let first = acquire(&mut book, Exclusive, 1, &[]);
        assert_eq!(book.leave(&"k", first, Exclusive), Left::Last(1));
        let Entered::Acquire(second) = enter(&mut book, Exclusive, &[]) else {
            panic!("re-entered a node that is leaving")
        };
        assert!(second > first);
    }

    #[test]
    fn d3_two_tasks_of_one_owner_make_one_acquisition() {
        let mut book = Book::new();
        let Entered::Acquire(generation) = enter(&mut book, Exclusive, &[]) else { panic!("nobody holds") };
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Join { queued: false });
        assert_eq!(enter(&mut book, Shared, &[]), Entered::Join { queued: false });
        book.acquired(&"k", generation, Exclusive, 1);
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Again(generation, 1));
        assert_eq!(book.leave(&"k", generation, Exclusive), Left::Remaining);
        assert_eq!(book.leave(&"k", generation, Exclusive), Left::Last(1));
    }

    #[test]
    fn who_joins_an_acquisition_knows_whether_it_waits_behind_others() {
        let mut book = Book::new();
        let Entered::Acquire(generation) = enter(&mut book, Exclusive, &[]) else { panic!("nobody holds") };
        book.queued(&"k", generation + 1);
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Join { queued: false });
        book.queued(&"k", generation);
        assert_eq!(enter(&mut book, Shared, &[]), Entered::Join { queued: true });
        book.acquired(&"k", generation, Exclusive, 1);
        book.queued(&"k", generation);
        assert_eq!(enter(&mut book, Shared, &[]), Entered::Again(generation, 1));
    }

    #[test]
    fn d4_when_the_acquiring_task_is_dropped_another_takes_over() {
        let mut book = Book::new();
        let Entered::Acquire(first) = enter(&mut book, Exclusive, &[]) else { panic!("nobody holds") };
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Join { queued: false });
        book.gave_up(&"k", first);
        let Entered::Acquire(second) = enter(&mut book, Exclusive, &[]) else { panic!("nobody takes over") };
        // What the first one still says does not touch the second.
        book.gave_up(&"k", first);
        book.acquired(&"k", first, Exclusive, 1);
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Join { queued: false });
        book.acquired(&"k", second, Exclusive, 2);
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Again(second, 2));
    }

    #[test]
    fn d5_nobody_re_enters_a_lost_hold() {
        for mode in [Exclusive, Shared] {
            let mut book = Book::new();
            acquire(&mut book, mode, 1, &[]);
            assert!(matches!(enter(&mut book, mode, &[1]), Entered::Acquire(_)));
        }
    }

    #[test]
    fn who_writes_may_read_and_the_last_writer_downgrades() {
        let mut book = Book::new();
        let generation = acquire(&mut book, Exclusive, 1, &[]);
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Again(generation, 1));
        assert_eq!(enter(&mut book, Shared, &[]), Entered::Again(generation, 1));
        assert_eq!(book.leave(&"k", generation, Exclusive), Left::Remaining);
        assert_eq!(book.convert(&"k", generation), Left::Downgrade(1));
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Deadlock, "it only reads now");
        assert_eq!(book.leave(&"k", generation, Shared), Left::Remaining);
        assert_eq!(book.leave(&"k", generation, Shared), Left::Last(1));
    }

    #[test]
    fn who_reads_may_read_again_and_not_write() {
        let mut book = Book::new();
        let generation = acquire(&mut book, Shared, 1, &[]);
        assert_eq!(enter(&mut book, Shared, &[]), Entered::Again(generation, 1));
        assert_eq!(enter(&mut book, Exclusive, &[]), Entered::Deadlock);
        assert_eq!(count(&book, &[]), 2);
    }
}
