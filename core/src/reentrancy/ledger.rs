//! The holds of owners, as a value without I/O (`docs/protocol/reentrancy.md`).

use std::collections::HashMap;
use std::hash::Hash;

/// Each guard carries it, so that a release from another generation does nothing
/// (OWNER-GUARD-CARRIES-GENERATION).
pub(crate) type Generation = u64;

/// A mutex uses only `Exclusive`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
}

/// A waiter is counted from its start, so it holds from the admission on, polled or not.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum OwnerEntry<H> {
    Acquiring { generation: Generation, mode: Mode, queued: bool, wanted: bool, counts: Counts },
    Held { generation: Generation, counts: Counts, hold: H },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Counts {
    exclusive: usize,
    shared: usize,
}

impl Counts {
    fn of(&mut self, mode: Mode) -> &mut usize {
        match mode {
            Mode::Exclusive => &mut self.exclusive,
            Mode::Shared => &mut self.shared,
        }
    }

    fn one(mode: Mode) -> Self {
        let mut counts = Self::default();
        *counts.of(mode) = 1;
        counts
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Entrant<H> {
    /// Counted. Start an acquisition in the background, which reports [`Ledger::acquired`] or
    /// [`Ledger::gave_up`].
    Acquire(Generation),
    /// Counted. An acquisition is under way (OWNER-ONE-ACQUISITION).
    Join(Generation),
    /// The running acquisition does not fit: it is to read and this task asks to write, or it is being
    /// undone. Enter again after its end.
    Later(Generation),
    /// Counted. A writer may read.
    Again(Generation, H),
    Deadlock,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress<H> {
    /// `queued` if it waits in the queue.
    Acquiring { queued: bool },
    /// It must be undone, and then given up.
    Unwanted,
    /// Its waiters hold.
    Held(H),
    /// It failed: enter again.
    Over,
}

/// The effect of the end of a hold or a wait on the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Left<H> {
    Remaining,
    /// Readers remain: downgrade the node.
    Downgrade(H),
    /// The entry is removed already (OWNER-RELEASE-REMOVES-ENTRY).
    Last(H),
    /// No task waits any more, or only readers wait for a writer's acquisition
    /// (OWNER-ACQUIRES-IN-BACKGROUND). The entry remains until the acquisition is undone, so that no other
    /// one of this owner starts before.
    Unwanted,
    /// OWNER-GUARD-CARRIES-GENERATION.
    Stale,
}

/// The holds by `K`: an owner and a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger<K: Eq + Hash, H> {
    entries: HashMap<K, OwnerEntry<H>>,
    last: Generation,
}

impl<K: Eq + Hash + Clone, H: Clone> Ledger<K, H> {
    pub(crate) fn new() -> Self {
        Self { entries: HashMap::new(), last: 0 }
    }

    /// Clears a lost hold's entry first (OWNER-LOSS-CLEARS-ENTRY).
    pub(crate) fn enter(&mut self, key: &K, mode: Mode, is_lost: impl FnOnce(&H) -> bool) -> Entrant<H> {
        match self.entries.get_mut(key) {
            Some(OwnerEntry::Acquiring { generation, mode: acquires, wanted, counts, .. }) => {
                if !*wanted || (*acquires, mode) == (Mode::Shared, Mode::Exclusive) {
                    return Entrant::Later(*generation);
                }
                *counts.of(mode) += 1;
                return Entrant::Join(*generation);
            }
            Some(OwnerEntry::Held { generation, counts, hold }) if !is_lost(hold) => {
                if mode == Mode::Exclusive && counts.exclusive == 0 {
                    return Entrant::Deadlock;
                }
                *counts.of(mode) += 1;
                return Entrant::Again(*generation, hold.clone());
            }
            _ => {}
        }
        self.last += 1;
        let (generation, counts) = (self.last, Counts::one(mode));
        let acquiring = OwnerEntry::Acquiring { generation, mode, queued: false, wanted: true, counts };
        self.entries.insert(key.clone(), acquiring);
        Entrant::Acquire(generation)
    }

    pub(crate) fn progress(&self, key: &K, of: Generation) -> Progress<H> {
        match self.entries.get(key) {
            Some(OwnerEntry::Acquiring { generation, queued, wanted, .. }) if *generation == of => {
                match wanted {
                    true => Progress::Acquiring { queued: *queued },
                    false => Progress::Unwanted,
                }
            }
            Some(OwnerEntry::Held { generation, hold, .. }) if *generation == of => {
                Progress::Held(hold.clone())
            }
            _ => Progress::Over,
        }
    }

    pub(crate) fn queued(&mut self, key: &K, of: Generation) {
        if let Some(OwnerEntry::Acquiring { generation, queued, .. }) = self.entries.get_mut(key)
            && *generation == of
        {
            *queued = true;
        }
    }

    /// Returns false if no waiter remains: the acquisition must be given up.
    pub(crate) fn acquired(&mut self, key: &K, of: Generation, hold: H) -> bool {
        match self.entries.get_mut(key) {
            Some(entry @ OwnerEntry::Acquiring { wanted: true, .. }) if entry.generation() == of => {
                *entry = OwnerEntry::Held { generation: of, counts: entry.counts(), hold };
                true
            }
            _ => false,
        }
    }

    /// The acquisition has failed: the waiters enter again.
    pub(crate) fn gave_up(&mut self, key: &K, of: Generation) {
        if let Some(entry @ OwnerEntry::Acquiring { .. }) = self.entries.get(key)
            && entry.generation() == of
        {
            self.entries.remove(key);
        }
    }

    /// For a released guard, or a dropped waiter.
    pub(crate) fn leave(&mut self, key: &K, of: Generation, mode: Mode) -> Left<H> {
        let Some(entry) = self.entries.get_mut(key).filter(|entry| entry.generation() == of) else {
            return Left::Stale;
        };
        let mut counts = entry.counts();
        let Some(remaining) = counts.of(mode).checked_sub(1) else { return Left::Stale };
        *counts.of(mode) = remaining;
        match entry {
            OwnerEntry::Acquiring { mode: acquires, wanted, counts: now, .. } => {
                *now = counts;
                let nobody =
                    counts == Counts::default() || *acquires == Mode::Exclusive && counts.exclusive == 0;
                if nobody && std::mem::replace(wanted, false) { Left::Unwanted } else { Left::Remaining }
            }
            OwnerEntry::Held { hold, .. } if counts == Counts::default() => {
                let hold = hold.clone();
                self.entries.remove(key);
                Left::Last(hold)
            }
            OwnerEntry::Held { hold, counts: now, .. } => {
                *now = counts;
                let downgrades = counts.exclusive == 0 && mode == Mode::Exclusive;
                if downgrades { Left::Downgrade(hold.clone()) } else { Left::Remaining }
            }
        }
    }

    /// Turns a writing guard into a reading one. Never returns [`Left::Last`].
    pub(crate) fn convert(&mut self, key: &K, generation: Generation) -> Left<H> {
        match self.entries.get_mut(key) {
            Some(OwnerEntry::Held { generation: current, counts, .. }) if *current == generation => {
                counts.shared += 1
            }
            _ => return Left::Stale,
        }
        self.leave(key, generation, Mode::Exclusive)
    }

    /// For a fault that the model injects.
    #[cfg(test)]
    #[allow(dead_code, reason = "the model of owners includes this file")]
    pub(super) fn generation(&self, key: &K) -> Option<Generation> {
        self.entries.get(key).map(OwnerEntry::generation)
    }

    /// For the model: a map has no hash.
    #[cfg(test)]
    #[allow(dead_code, reason = "the model of owners includes this file")]
    pub(super) fn hash_of<S: std::hash::Hasher>(&self, key: &K, state: &mut S)
    where
        H: Hash,
    {
        (self.last, self.entries.get(key)).hash(state);
    }

    /// Zero after a loss.
    pub(crate) fn count(&self, key: &K, is_lost: impl FnOnce(&H) -> bool) -> usize {
        match self.entries.get(key) {
            Some(OwnerEntry::Held { counts, hold, .. }) if !is_lost(hold) => counts.exclusive + counts.shared,
            _ => 0,
        }
    }
}

impl<K: Eq + Hash + Clone, H: Clone> Default for Ledger<K, H> {
    fn default() -> Self {
        Self::new()
    }
}

impl<H> OwnerEntry<H> {
    fn generation(&self) -> Generation {
        match self {
            OwnerEntry::Acquiring { generation, .. } | OwnerEntry::Held { generation, .. } => *generation,
        }
    }

    fn counts(&self) -> Counts {
        match self {
            OwnerEntry::Acquiring { counts, .. } | OwnerEntry::Held { counts, .. } => *counts,
        }
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
// A model has the file by its path, too.
mod tests;
