use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::free::Free;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    Warm,
    Recorded,
    Over,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub(super) contender: usize,
    pub(super) at: Duration,
}

pub(super) struct Room {
    capacity: u32,
    phase: AtomicU8,
    began: Instant,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    free: Free,
    last: Option<Departure>,
    inside: u32,
    overlaps: u64,
    grants: u64,
    handoffs: u64,
    was_free: Vec<Duration>,
}

impl Room {
    pub(super) fn new(capacity: u32) -> Self {
        let (phase, began) = (AtomicU8::new(Phase::Warm as u8), Instant::now());
        Self { capacity, phase, began, book: Mutex::default() }
    }

    pub(super) fn phase(&self) -> Phase {
        [Phase::Warm, Phase::Recorded, Phase::Over][usize::from(self.phase.load(Ordering::SeqCst))]
    }

    pub(super) fn enter_phase(&self, phase: Phase) {
        match phase {
            Phase::Warm => {}
            Phase::Recorded => self.note(|book, now| book.free.begin(now)),
            Phase::Over => self.note(|book, now| book.was_free = book.free.spells(now)),
        }
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    pub(super) fn asks(&self) -> Duration {
        self.note(|book, now| {
            book.free.waits(now);
            now
        })
    }

    pub(super) fn gives_up(&self) {
        self.note(|book, now| book.free.waited(false, now));
    }

    pub(super) fn free(&self) -> Vec<Duration> {
        self.note(|book, _| book.was_free.clone())
    }

    fn note<T>(&self, what: impl FnOnce(&mut Book, Duration) -> T) -> T {
        let mut book = self.book.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.began.elapsed();
        what(&mut book, now)
    }

    pub(super) fn enter(&self, weight: u32) -> (Duration, Option<Departure>) {
        self.note(|book, now| {
            book.inside += weight;
            book.overlaps += u64::from(book.inside > self.capacity);
            book.free.waited(true, now);
            (now, book.last)
        })
    }

    pub(super) fn records(&self, handed_over: bool) {
        self.note(|book, _| {
            book.grants += 1;
            book.handoffs += u64::from(handed_over);
        });
    }

    /// The second grant comes after requests within the recording.
    pub(super) fn has_recorded(&self, handoffs: bool) -> bool {
        self.note(|book, _| book.grants >= 2 && (!handoffs || book.handoffs > 0))
    }

    /// Call it directly before the release.
    pub(super) fn leave(&self, weight: u32, contender: usize) {
        self.note(|book, at| {
            book.inside -= weight;
            book.free.releases(at);
            book.last = Some(Departure { contender, at });
        });
    }

    pub(super) fn overlaps(&self) -> u64 {
        self.note(|book, _| book.overlaps)
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
