//! Where the contenders meet: those inside, and the last departure, on one clock.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
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
    capacity: u32,
    inside: AtomicU32,
    overlaps: AtomicU64,
    phase: AtomicU8,
    // What was recorded: grants, and those among them that were handed over.
    grants: AtomicU64,
    handoffs: AtomicU64,
    book: Mutex<Book>,
    // What was free by the end of what is recorded.
    was_free: OnceLock<Vec<Duration>>,
}

/// What happened in the room, in the order of its instants: only the holder of the lock reads the clock. A thread that
/// reads it first and waits for the lock then would note an instant older than the one before.
struct Book {
    began: Instant,
    free: Free,
    last: Option<Departure>,
}

impl Room {
    pub(super) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            inside: AtomicU32::new(0),
            overlaps: AtomicU64::new(0),
            phase: AtomicU8::new(Phase::Warm as u8),
            grants: AtomicU64::new(0),
            handoffs: AtomicU64::new(0),
            book: Mutex::new(Book { began: Instant::now(), free: Free::default(), last: None }),
            was_free: OnceLock::new(),
        }
    }

    pub(super) fn phase(&self) -> Phase {
        [Phase::Warm, Phase::Recorded, Phase::Over][usize::from(self.phase.load(Ordering::SeqCst))]
    }

    pub(super) fn enter_phase(&self, phase: Phase) {
        match phase {
            Phase::Warm => {}
            Phase::Recorded => self.note(|book, now| book.free.begin(now)),
            Phase::Over => {
                self.was_free.get_or_init(|| self.note(|book, now| book.free.spells(now)));
            }
        }
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Begins to wait, and answers since when.
    pub(super) fn asks(&self) -> Duration {
        self.note(|book, now| {
            book.free.waits(now);
            now
        })
    }

    /// Waits no more.
    pub(super) fn gives_up(&self) {
        self.note(|book, now| book.free.waited(false, now));
    }

    /// For how long nobody was inside while somebody waited, each time in what was recorded.
    pub(super) fn free(&self) -> &[Duration] {
        self.was_free.get().map_or(&[], Vec::as_slice)
    }

    /// Notes what happens now.
    fn note<T>(&self, what: impl FnOnce(&mut Book, Duration) -> T) -> T {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let now = book.began.elapsed();
        what(&mut book, now)
    }

    /// Comes in, and answers when, and the last departure. More inside than there is room for is an overlap.
    pub(super) fn enter(&self, weight: u32) -> (Duration, Option<Departure>) {
        let inside = self.inside.fetch_add(weight, Ordering::SeqCst) + weight;
        if inside > self.capacity {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        self.note(|book, now| {
            book.free.waited(true, now);
            (now, book.last)
        })
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
        self.note(|book, at| {
            book.free.releases(at);
            book.last = Some(Departure { contender, at });
        });
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
        assert_eq!(room.enter(2).1.map(|last| last.contender), Some(0));
        assert_eq!(room.overlaps(), 1);
    }
    /// `Free` refuses an older instant: threads that read the clock outside of the lock meet that at once.
    #[test]
    fn instants_are_noted_in_their_order() {
        let room = Room::new(4);
        room.enter_phase(Phase::Recorded);
        std::thread::scope(|scope| {
            for contender in 0..4 {
                let room = &room;
                scope.spawn(move || {
                    for turn in 0..5_000 {
                        room.asks();
                        if turn % 2 == 0 {
                            room.gives_up();
                        } else {
                            room.enter(1);
                            room.leave(1, contender);
                        }
                    }
                });
            }
        });
        room.enter_phase(Phase::Over);
        assert!(room.free().iter().sum::<Duration>() <= room.asks());
    }
}
