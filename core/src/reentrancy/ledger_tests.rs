//! Some orders of an owner's tasks. The model `core/tests/models/owner` plays all of them.

use super::Mode::{Exclusive, Shared};
use super::*;

/// A hold is named by the node that it has. None is lost.
type Book = Ledger<&'static str, u32>;

fn enter(book: &mut Book, mode: Mode) -> Entrant<u32> {
    book.enter(&"k", mode, |_| false)
}

fn begin(book: &mut Book, mode: Mode) -> Generation {
    let Entrant::Acquire(generation) = enter(book, mode) else { panic!("nobody holds or acquires") };
    generation
}

#[test]
fn who_joins_an_acquisition_knows_whether_it_waits_behind_others() {
    let mut book = Book::new();
    let generation = begin(&mut book, Exclusive);
    book.queued(&"k", generation + 1);
    assert_eq!(book.progress(&"k", generation), Progress::Acquiring { queued: false });
    book.queued(&"k", generation);
    assert_eq!(book.progress(&"k", generation), Progress::Acquiring { queued: true });
    assert!(book.acquired(&"k", generation, 1));
    book.queued(&"k", generation);
    assert_eq!(enter(&mut book, Shared), Entrant::Again(generation, 1));
}

#[test]
fn d4_an_acquisition_goes_on_while_anybody_waits_for_it() {
    let mut book = Book::new();
    let first = begin(&mut book, Exclusive);
    assert_eq!(enter(&mut book, Exclusive), Entrant::Join(first));
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Remaining, "the other waits on");
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Unwanted);
    assert_eq!(book.progress(&"k", first), Progress::Unwanted);
    assert_eq!(enter(&mut book, Exclusive), Entrant::Later(first), "two at once");
    assert!(!book.acquired(&"k", first, 1), "nobody's");
    book.gave_up(&"k", first);
    let second = begin(&mut book, Exclusive);
    // What the first generation still reports does not touch the second.
    book.gave_up(&"k", first);
    assert!(!book.acquired(&"k", first, 1));
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Stale);
    assert!(book.acquired(&"k", second, 2));
    assert_eq!(enter(&mut book, Exclusive), Entrant::Again(second, 2));
}

#[test]
fn d4_who_joined_an_acquisition_that_failed_enters_again() {
    let mut book = Book::new();
    let first = begin(&mut book, Shared);
    assert_eq!(enter(&mut book, Shared), Entrant::Join(first));
    book.gave_up(&"k", first);
    assert_eq!(book.progress(&"k", first), Progress::Over);
    assert_eq!(book.leave(&"k", first, Shared), Left::Stale);
    assert!(begin(&mut book, Shared) > first);
}

#[test]
fn who_asks_to_write_waits_for_no_reader_and_readers_for_no_writer_that_nobody_wants() {
    let mut book = Book::new();
    let reading = begin(&mut book, Shared);
    assert_eq!(enter(&mut book, Exclusive), Entrant::Later(reading));
    assert!(book.acquired(&"k", reading, 1));
    assert_eq!(enter(&mut book, Exclusive), Entrant::Deadlock);
    assert_eq!(book.leave(&"k", reading, Shared), Left::Last(1), "a later entrant is not counted");
    let writing = begin(&mut book, Exclusive);
    assert_eq!(enter(&mut book, Shared), Entrant::Join(writing));
    assert_eq!(book.leave(&"k", writing, Exclusive), Left::Unwanted);
    assert_eq!(enter(&mut book, Shared), Entrant::Later(writing));
    assert_eq!(book.leave(&"k", writing, Shared), Left::Remaining, "reported once");
}

#[test]
fn who_writes_may_read_and_the_last_writer_downgrades() {
    let mut book = Book::new();
    let generation = begin(&mut book, Exclusive);
    assert!(book.acquired(&"k", generation, 1));
    assert_eq!(enter(&mut book, Exclusive), Entrant::Again(generation, 1));
    assert_eq!(enter(&mut book, Shared), Entrant::Again(generation, 1));
    assert_eq!(book.leave(&"k", generation, Exclusive), Left::Remaining);
    assert_eq!(book.convert(&"k", generation), Left::Downgrade(1));
    assert_eq!(enter(&mut book, Exclusive), Entrant::Deadlock, "it only reads now");
    assert_eq!(book.leave(&"k", generation, Shared), Left::Remaining);
    assert_eq!(book.leave(&"k", generation, Shared), Left::Last(1));
}
