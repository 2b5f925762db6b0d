//! What owners hold, as a value (RULES D).

use std::collections::HashMap;
use std::hash::Hash;

/// Which acquisition of an owner and key: a guard carries it, so that a release of another does nothing (D1).
pub(crate) type Generation = u64;

/// One entry per owner and key: none, acquiring, or held.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Entry<H> {
    Acquiring(Generation),
    Held { generation: Generation, count: usize, hold: H },
}

/// What a task that enters is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entered<H> {
    /// Nobody of this owner holds or acquires: acquire, then say [`Ledger::acquired`] or [`Ledger::gave_up`].
    Acquire(Generation),
    /// Another task of this owner acquires: wait for it, and enter again (D3).
    Join,
    /// Held: counted, no request.
    Again(Generation, H),
}

/// What a release means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left<H> {
    /// Other holds of this generation remain.
    Remaining,
    /// It was the last: the node is to be given back. The entry is gone already, so that a later acquisition
    /// is a new one (D2).
    Last(H),
    /// The guard's generation is not there any more: it does nothing (D1).
    Stale,
}

/// The holds of all owners of a coordinator, by owner and key.
#[derive(Clone, Debug)]
pub(crate) struct Ledger<K, H> {
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
    pub(crate) fn enter(&mut self, key: &K, is_lost: impl FnOnce(&H) -> bool) -> Entered<H> {
        match self.entries.get_mut(key) {
            Some(Entry::Acquiring(_)) => return Entered::Join,
            Some(Entry::Held { generation, count, hold }) if !is_lost(hold) => {
                *count += 1;
                return Entered::Again(*generation, hold.clone());
            }
            _ => {}
        }
        self.last += 1;
        self.entries.insert(key.clone(), Entry::Acquiring(self.last));
        Entered::Acquire(self.last)
    }

    /// The acquisition of this generation succeeded: held once.
    pub(crate) fn acquired(&mut self, key: &K, generation: Generation, hold: H) {
        if let Some(entry @ Entry::Acquiring(_)) = self.entries.get_mut(key)
            && *entry_generation(entry) == generation
        {
            *entry = Entry::Held { generation, count: 1, hold };
        }
    }

    /// The acquisition of this generation failed, or its task was dropped: whoever waits for it enters again, and one of
    /// them takes over (D4).
    pub(crate) fn gave_up(&mut self, key: &K, generation: Generation) {
        if matches!(self.entries.get(key), Some(Entry::Acquiring(current)) if *current == generation) {
            self.entries.remove(key);
        }
    }

    /// A guard of this generation is released.
    pub(crate) fn leave(&mut self, key: &K, generation: Generation) -> Left<H> {
        match self.entries.get_mut(key) {
            Some(Entry::Held { generation: current, count, .. }) if *current == generation => {
                *count -= 1;
                if *count > 0 {
                    return Left::Remaining;
                }
            }
            _ => return Left::Stale,
        }
        match self.entries.remove(key) {
            Some(Entry::Held { hold, .. }) => Left::Last(hold),
            _ => Left::Stale,
        }
    }

    /// How often the owner holds `key` now.
    pub(crate) fn count(&self, key: &K) -> usize {
        match self.entries.get(key) {
            Some(Entry::Held { count, .. }) => *count,
            _ => 0,
        }
    }
}

impl<K: Eq + Hash + Clone, H: Clone> Default for Ledger<K, H> {
    fn default() -> Self {
        Self::new()
    }
}

fn entry_generation<H>(entry: &Entry<H>) -> &Generation {
    match entry {
        Entry::Acquiring(generation) | Entry::Held { generation, .. } => generation,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hold is named by the node that it has; `lost` are the nodes that are lost.
    type Book = Ledger<&'static str, u32>;

    fn enter(book: &mut Book, lost: &[u32]) -> Entered<u32> {
        book.enter(&"k", |node| lost.contains(node))
    }

    fn acquire(book: &mut Book, node: u32, lost: &[u32]) -> Generation {
        let Entered::Acquire(generation) = enter(book, lost) else { panic!("nobody holds") };
        book.acquired(&"k", generation, node);
        generation
    }

    #[test]
    fn d1_a_release_of_an_older_generation_does_nothing() {
        let mut book = Book::new();
        let old = acquire(&mut book, 1, &[]);
        let new = acquire(&mut book, 2, &[1]);
        assert_eq!(book.leave(&"k", old), Left::Stale);
        assert_eq!(book.count(&"k"), 1);
        assert_eq!(book.leave(&"k", new), Left::Last(2));
    }

    #[test]
    fn d2_after_the_last_release_an_acquisition_is_a_new_one() {
        let mut book = Book::new();
        let first = acquire(&mut book, 1, &[]);
        assert_eq!(book.leave(&"k", first), Left::Last(1));
        let Entered::Acquire(second) = enter(&mut book, &[]) else {
            panic!("re-entered a node that is leaving")
        };
        assert!(second > first);
    }

    #[test]
    fn d3_two_tasks_of_one_owner_make_one_acquisition() {
        let mut book = Book::new();
        let Entered::Acquire(generation) = enter(&mut book, &[]) else { panic!("nobody holds") };
        assert_eq!(enter(&mut book, &[]), Entered::Join);
        book.acquired(&"k", generation, 1);
        assert_eq!(enter(&mut book, &[]), Entered::Again(generation, 1));
        assert_eq!(book.leave(&"k", generation), Left::Remaining);
        assert_eq!(book.leave(&"k", generation), Left::Last(1));
    }

    #[test]
    fn d4_when_the_acquiring_task_is_dropped_another_takes_over() {
        let mut book = Book::new();
        let Entered::Acquire(first) = enter(&mut book, &[]) else { panic!("nobody holds") };
        assert_eq!(enter(&mut book, &[]), Entered::Join);
        book.gave_up(&"k", first);
        let Entered::Acquire(second) = enter(&mut book, &[]) else { panic!("nobody takes over") };
        // What the first one still says does not touch the second.
        book.gave_up(&"k", first);
        book.acquired(&"k", first, 1);
        assert_eq!(enter(&mut book, &[]), Entered::Join);
        book.acquired(&"k", second, 2);
        assert_eq!(enter(&mut book, &[]), Entered::Again(second, 2));
    }

    #[test]
    fn d5_nobody_re_enters_a_lost_hold() {
        let mut book = Book::new();
        acquire(&mut book, 1, &[]);
        assert!(matches!(enter(&mut book, &[1]), Entered::Acquire(_)));
    }
}
