use super::Mode::{Exclusive, Shared};
use super::*;

/// The node of a hold is its number; `lost` are the lost nodes.
type Book = Ledger<&'static str, u32>;

fn enter(book: &mut Book, mode: Mode, lost: &[u32]) -> Entrant<u32> {
    book.enter(&"k", mode, |node| lost.contains(node))
}

fn count(book: &Book, lost: &[u32]) -> usize {
    book.count(&"k", |node| lost.contains(node))
}

fn acquire(book: &mut Book, mode: Mode, node: u32, lost: &[u32]) -> Generation {
    let Entrant::Acquire(generation) = enter(book, mode, lost) else { panic!("nobody holds") };
    assert!(book.acquired(&"k", generation, node));
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
    assert_eq!(count(&book, &[2]), 0, "a lost node is not held");
    assert_eq!(book.leave(&"k", new, Exclusive), Left::Last(2));
}

#[test]
fn d2_after_the_last_release_an_acquisition_is_a_new_one() {
    let mut book = Book::new();
    let first = acquire(&mut book, Exclusive, 1, &[]);
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Last(1));
    let Entrant::Acquire(second) = enter(&mut book, Exclusive, &[]) else {
        panic!("re-entered a node that is leaving")
    };
    assert!(second > first);
}

fn begin(book: &mut Book, mode: Mode) -> Generation {
    let Entrant::Acquire(generation) = enter(book, mode, &[]) else { panic!("no task holds or acquires") };
    generation
}

#[test]
fn d3_two_tasks_of_one_owner_make_one_acquisition_and_hold_from_its_end() {
    let mut book = Book::new();
    let generation = begin(&mut book, Exclusive);
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Join(generation));
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Join(generation));
    assert!(book.acquired(&"k", generation, 1));
    assert_eq!((count(&book, &[]), book.progress(&"k", generation)), (3, Progress::Held(1)));
    assert_eq!(book.leave(&"k", generation, Exclusive), Left::Remaining);
    assert_eq!(book.leave(&"k", generation, Shared), Left::Remaining);
    assert_eq!(book.leave(&"k", generation, Exclusive), Left::Last(1));
    assert_eq!(book.progress(&"k", generation), Progress::Over);
}

#[test]
fn joined_acquisition_reports_whether_it_is_queued() {
    let mut book = Book::new();
    let generation = begin(&mut book, Exclusive);
    book.queued(&"k", generation + 1);
    assert_eq!(book.progress(&"k", generation), Progress::Acquiring { queued: false });
    book.queued(&"k", generation);
    assert_eq!(book.progress(&"k", generation), Progress::Acquiring { queued: true });
    assert!(book.acquired(&"k", generation, 1));
    book.queued(&"k", generation);
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Again(generation, 1));
}

#[test]
fn d4_an_acquisition_goes_on_while_anybody_waits_for_it() {
    let mut book = Book::new();
    let first = begin(&mut book, Exclusive);
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Join(first));
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Remaining, "the other waits on");
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Unwanted);
    assert_eq!(book.progress(&"k", first), Progress::Unwanted);
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Later(first), "two at once");
    assert!(!book.acquired(&"k", first, 1), "nobody's");
    book.gave_up(&"k", first);
    let second = begin(&mut book, Exclusive);
    // Later reports of the first generation do not affect the second.
    book.gave_up(&"k", first);
    assert!(!book.acquired(&"k", first, 1));
    assert_eq!(book.leave(&"k", first, Exclusive), Left::Stale);
    assert!(book.acquired(&"k", second, 2));
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Again(second, 2));
}

#[test]
fn d4_who_joined_an_acquisition_that_failed_enters_again() {
    let mut book = Book::new();
    let first = begin(&mut book, Shared);
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Join(first));
    book.gave_up(&"k", first);
    assert_eq!(book.progress(&"k", first), Progress::Over);
    assert_eq!(book.leave(&"k", first, Shared), Left::Stale);
    assert!(begin(&mut book, Shared) > first);
}

#[test]
fn writer_joins_no_pending_read_and_reader_no_unwanted_write() {
    let mut book = Book::new();
    let reading = begin(&mut book, Shared);
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Later(reading));
    assert!(book.acquired(&"k", reading, 1));
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Deadlock);
    assert_eq!(book.leave(&"k", reading, Shared), Left::Last(1), "a later entrant is not counted");
    let writing = begin(&mut book, Exclusive);
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Join(writing));
    assert_eq!(book.leave(&"k", writing, Exclusive), Left::Unwanted);
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Later(writing));
    assert_eq!(book.leave(&"k", writing, Shared), Left::Remaining, "reported once");
}

#[test]
fn d5_lost_hold_is_not_reentered() {
    for mode in [Exclusive, Shared] {
        let mut book = Book::new();
        acquire(&mut book, mode, 1, &[]);
        assert!(matches!(enter(&mut book, mode, &[1]), Entrant::Acquire(_)));
    }
}

#[test]
fn writer_may_also_read_and_last_writer_release_downgrades() {
    let mut book = Book::new();
    let generation = acquire(&mut book, Exclusive, 1, &[]);
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Again(generation, 1));
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Again(generation, 1));
    assert_eq!(book.leave(&"k", generation, Exclusive), Left::Remaining);
    assert_eq!(book.convert(&"k", generation), Left::Downgrade(1));
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Deadlock, "it only reads now");
    assert_eq!(book.leave(&"k", generation, Shared), Left::Remaining);
    assert_eq!(book.leave(&"k", generation, Shared), Left::Last(1));
}

#[test]
fn reader_may_read_again_but_not_write() {
    let mut book = Book::new();
    let generation = acquire(&mut book, Shared, 1, &[]);
    assert_eq!(enter(&mut book, Shared, &[]), Entrant::Again(generation, 1));
    assert_eq!(enter(&mut book, Exclusive, &[]), Entrant::Deadlock);
    assert_eq!(count(&book, &[]), 2);
}
