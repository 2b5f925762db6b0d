//! Where the contenders meet: those inside, and the last departure, on one clock.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::free::Free;

/// How far the contest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Warm,
    Recorded,
    Over,
}

/// The last release: its contender, and the time just before it was called.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) contender: usize,
    pub(super) at: Duration,
}

/// Where the contenders meet.
pub(super) struct Room {
    began: Instant,
    capacity: u32,
    inside: AtomicU32,
    overlaps: AtomicU64,
    phase: AtomicU8,
    last: Mutex<Option<Departure>>,
    // What was recorded: grants, and those among them that were handed over.
    grants: AtomicU64,
    handoffs: AtomicU64,
    free: Mutex<Free>,
    // What was free by the end of what is recorded.
    was_free: OnceLock<Vec<Duration>>,
}

impl Room {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            began: Instant::now(),
            capacity,
            inside: AtomicU32::new(0),
            overlaps: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Warm as u8),
            last: Mutex::new(None),
            grants: AtomicU64::new(0),
            handoffs: AtomicU64::new(0),
            free: Mutex::default(),
            was_free: OnceLock::new(),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn phase(&self) -> Phase {
        [Phase::Warm, Phase::Recorded, Phase::Over][usize::from(self.phase.load(Ordering::SeqCst))]
    }

    pub(super) fn enter_phase(&self, phase: Phase) {
        let now = self.now();
        match phase {
            Phase::Warm => {}
            Phase::Recorded => self.with_free(|free| free.begin(now)),
            Phase::Over => {
                self.was_free.get_or_init(|| self.with_free(|free| free.spells(now)));
            }
        }
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Begins to wait, and answers since when.
    pub(super) fn asks(&self) -> Duration {
        let now = self.now();
        self.with_free(|free| free.waits(now));
        now
    }

    /// Waits no more.
    pub(super) fn gives_up(&self) {
        let now = self.now();
        self.with_free(|free| free.waited(false, now));
    }

    /// For how long nobody was inside while somebody waited, each time in what was recorded.
    pub(super) fn free(&self) -> &[Duration] {
        self.was_free.get().map_or(&[], Vec::as_slice)
    }

    fn with_free<T>(&self, look: impl FnOnce(&mut Free) -> T) -> T {
        look(&mut self.free.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Comes in, and answers the last departure. More inside than there is room for is an overlap.
    pub(super) fn enter(&self, weight: u32) -> Option<Departure> {
        let inside = self.inside.fetch_add(weight, Ordering::SeqCst) + weight;
        if inside > self.capacity {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let now = self.now();
        self.with_free(|free| free.waited(true, now));
        *self.last()
    }

    /// A grant was recorded.
    pub(super) fn records(&self, handed_over: bool) {
        self.grants.fetch_add(1, Ordering::Relaxed);
        self.handoffs.fetch_add(u64::from(handed_over), Ordering::Relaxed);
    }

    /// Whether there is something to show. Of two grants the second comes after requests that were sent in
    /// what is recorded.
    pub(super) fn has_recorded(&self, handoffs: bool) -> bool {
        self.grants.load(Ordering::Relaxed) >= 2 && (!handoffs || self.handoffs.load(Ordering::Relaxed) > 0)
    }

    /// Goes out: called just before the release.
    pub(super) fn leave(&self, weight: u32, contender: usize) {
        self.inside.fetch_sub(weight, Ordering::SeqCst);
        let now = self.now();
        self.with_free(|free| free.releases(now));
        *self.last() = Some(Departure { contender, at: now });
    }

    fn last(&self) -> MutexGuard<'_, Option<Departure>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn overlaps(&self) -> u64 {
        self.overlaps.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_room_holds_is_an_overlap() {
        let room = Room::new(5);
        for (weight, overlaps) in [(3, 0), (2, 0), (1, 1)] {
            room.asks();
            room.enter(weight);
            assert_eq!(room.overlaps(), overlaps);
        }
        room.leave(3, 0);
        room.asks();
        assert_eq!(room.enter(2).map(|last| last.contender), Some(0));
        assert_eq!(room.overlaps(), 1);
    }
}
