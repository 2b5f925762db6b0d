//! The thread of a coordinator, from its connect to its last handle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use latchwork::blocking::{self, Coordinator, MultiLock, QuorumLock};
use latchwork::{Error, ErrorKind, LostReason};
use latchwork_servers::ClosedPort;

use super::{PATIENCE, connect, store};

/// The labels of all clients that are connected.
fn labels(observer: &Coordinator) -> Vec<String> {
    let clients = observer.clients().into_iter().map(|client| client.expect("listed").label);
    clients.collect()
}

/// Waits until `observer` alone is connected, by a group that nobody else has joined.
fn until_alone(observer: &Coordinator) {
    let until = Instant::now() + PATIENCE;
    while labels(observer).len() > 1 {
        assert!(Instant::now() < until, "still connected: {:?}", labels(observer));
        thread::yield_now();
    }
}

#[test]
fn behind_the_last_handle_everything_is_given_back() {
    let url = store();
    let observer = connect(&url);
    let other = connect(&format!("{url}?label=other"));
    let held = other.mutex("held").expect("a key").acquire().expect("free");
    let watch = other.shared_value("value").expect("a key").watch().expect("watched");
    drop(other);
    assert!(labels(&observer).contains(&"other".to_owned()), "the guard keeps it");
    drop(held);
    assert!(labels(&observer).contains(&"other".to_owned()), "the watch keeps it");
    drop(watch);
    until_alone(&observer);
    let mutex = observer.mutex("held").expect("a key");
    drop(mutex.try_acquire().expect("answered").expect("it was given back, not left to its lease"));
    observer.close().expect("closed");
}

/// A hold over several coordinators needs the thread of each, whatever else is dropped.
#[test]
fn a_hold_over_several_coordinators_keeps_them_all() {
    let clients =
        || ["east", "north", "west"].map(|name| connect(&format!("{}?name={name}&ttl=4s", store())));
    let mutexes = || clients().map(|client| client.mutex("held").expect("a key"));
    let both = MultiLock::new(mutexes().map(Into::into)).and_then(|lock| lock.acquire()).expect("free");
    let quorum = QuorumLock::new(mutexes(), Duration::from_secs(4)).expect("three members");
    quorum.initialize().expect("written");
    let most = quorum.acquire().expect("free");
    drop(quorum);
    // The end of a hold that does not end is the event to wait for. Longer than the TTL in all.
    assert_eq!(both.lost().wait_within(Duration::from_secs(5)).expect("waited"), None);
    assert_eq!(most.lost().wait_within(Duration::from_millis(500)).expect("waited"), None);
    assert_eq!(most.tokens().iter().flatten().count(), 3, "no member has ended");
}

#[test]
fn a_close_ends_what_is_held_and_waits_for_the_margin() {
    let coordinator = connect(&(store() + "?ttl=2s"));
    let hold = coordinator.mutex("held").expect("a key").acquire().expect("free");
    let lost = hold.lost();
    let (margin, begun) = (coordinator.lease().margin(), Instant::now());
    coordinator.close().expect("closed");
    assert!(begun.elapsed() >= margin, "the work under it must end first");
    assert_eq!(lost.reason(), Some(LostReason::Closed));
    let after = coordinator.mutex("held").expect("a key").acquire().expect_err("closed");
    assert_eq!(after.kind(), &ErrorKind::Closed, "{after}");
}

#[test]
fn work_that_fails_or_panics_leaves_nothing_behind() {
    let url = store();
    let observer = connect(&url);
    let mutex = observer.mutex("held").expect("a key");
    let failed = blocking::with(&url, |coordinator| {
        let _held = coordinator.mutex("held")?.acquire()?;
        Err::<(), Error>(Error::invalid("it", "fails"))
    });
    assert_eq!(failed.expect_err("the work's").argument(), Some("it"));
    drop(mutex.try_acquire().expect("answered").expect("given back"));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        blocking::with(&url, |coordinator| -> Result<(), Error> {
            let _held = coordinator.mutex("held")?.acquire()?;
            std::panic::resume_unwind(Box::new("it panics"))
        })
    }));
    let panic = panicked.expect_err("the work's");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"it panics"));
    drop(mutex.try_acquire().expect("answered").expect("given back"));
    assert_eq!(labels(&observer).len(), 1);
    observer.close().expect("closed");
}

#[test]
fn a_server_that_is_not_there_is_an_error_in_time() {
    let closed = ClosedPort::take().expect("a port");
    let url = format!("redis://{}?connect_timeout=1s&request_timeout=500ms", closed.addr());
    let begun = Instant::now();
    let error = blocking::connect(&url).expect_err("nobody is there");
    assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    let lazy = blocking::connect_lazy(&url).expect("no I/O");
    let error = lazy.mutex("held").and_then(|mutex| mutex.try_acquire()).expect_err("nobody is there");
    assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
    lazy.close().expect("nothing to give back");
    assert_eq!(blocking::connect("memory://a b").expect_err("a bad URL").argument(), Some("url"));
}

#[test]
fn a_lazy_coordinator_connects_in_its_first_call() {
    let coordinator = blocking::connect_lazy(store()).expect("no I/O");
    let hold = coordinator.mutex("held").and_then(|mutex| mutex.acquire()).expect("connected and free");
    assert!(hold.is_held());
    drop(hold);
    coordinator.close().expect("closed");
}

#[test]
fn many_threads_of_several_coordinators_exclude_each_other() {
    const THREADS: u32 = 8;
    const TURNS: u32 = 50;
    let url = store();
    let coordinators = [connect(&url), connect(&url)];
    let (inside, done) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let mutex = coordinators[number as usize % 2].mutex("held").expect("a key");
            let (inside, done) = (&inside, &done);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let turn = mutex.with_lock(|_| {
                        assert!(!inside.swap(true, Ordering::SeqCst), "two at a time");
                        thread::yield_now();
                        inside.store(false, Ordering::SeqCst);
                    });
                    turn.expect("it was held throughout");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), THREADS * TURNS);
    for coordinator in &coordinators {
        coordinator.close().expect("closed");
    }
}

#[test]
fn a_thread_that_does_not_call_keeps_its_lease() {
    let coordinator = connect(&(store() + "?ttl=4s"));
    let hold = coordinator.mutex("held").expect("a key").acquire().expect("free");
    let before = coordinator.lease().deadline();
    // The end of a hold that does not end is the event to wait for.
    assert_eq!(hold.lost().wait_within(Duration::from_millis(5500)).expect("waited"), None);
    assert!(hold.is_held() && coordinator.lease().deadline() > before);
    coordinator.close().expect("closed");
}
