use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{LeaseWriter, NodeWriter};
use latchwork_core::{Clock, LostReason};

use super::OwnNode;
use super::queue_watch::{Notified, Until};
use super::watches::{Command, Watches};
use crate::driver::{Change, EventKind, StreamEvent};
use crate::layout::Inbox;

fn own(key: &[u8], sequence: u64) -> Arc<OwnNode> {
    let clock = Clock::system();
    let lease = LeaseWriter::new(clock.clone(), Duration::from_secs(10), clock.now());
    Arc::new(OwnNode { key: key.into(), state: NodeWriter::new(lease, sequence), left: None })
}

fn leaves(watches: &Watches, key: &[u8], revision: u64) {
    watches.apply(StreamEvent::Changed {
        id: 1,
        revision,
        changes: vec![Change { key: key.to_vec(), value: Vec::new(), revision }],
    });
}

#[tokio::test]
async fn a_node_that_was_removed_before_its_join_was_answered_is_lost() {
    let (watches, _commands) = Watches::new();
    let _other = watches.departure("q/", vec![b"q/other".to_vec()], Until::Any, 5);
    watches.apply(StreamEvent::Created { id: 1, revision: 5 });
    leaves(&watches, b"q/later", 9);
    leaves(&watches, b"q/own", 11);
    leaves(&watches, b"q/pred", 12);
    // Both were created at 10, under names that were used before.
    let (gone, here) = (own(b"q/own", 10), own(b"q/later", 10));
    watches.register(Arc::clone(&gone));
    watches.register(Arc::clone(&here));
    assert_eq!(gone.state.lost(), Some(LostReason::Revoked));
    assert!(!watches.is_own(&gone));
    assert_eq!(here.state.lost(), None);
    let mut wait = watches.departure("q/", vec![b"q/pred".to_vec()], Until::All, 10);
    assert_eq!(wait.notified().await, Notified::Event(Vec::new()));
    leaves(&watches, b"q/later", 13);
    assert_eq!(here.state.lost(), Some(LostReason::Revoked));
}

#[tokio::test]
async fn a_watch_that_goes_on_in_the_next_stream_is_not_started_twice() {
    let (watches, mut commands) = Watches::new();
    let held = own(b"q/own", 10);
    watches.register(Arc::clone(&held));
    watches.watch_own_from(&held, 10);
    let _wait = watches.key(b"q/other".to_vec(), EventKind::Deletes, 10);
    assert_eq!(watches.stream_ended(), [1]);
    let later = own(b"q/later", 20);
    watches.register(Arc::clone(&later));
    watches.watch_own_from(&later, 20);
    let mut asked = Vec::new();
    while let Ok(Command::Start(id)) = commands.try_recv() {
        asked.push((id, watches.is_to_start(id)));
    }
    assert_eq!(asked, [(1, false), (2, false), (3, true)]);
}

#[tokio::test]
async fn watch_of_a_queue_starts_once_and_from_now_on() {
    let (watches, mut commands) = Watches::new();
    let wait = |after| watches.departure("q/", vec![b"q/ahead".to_vec()], Until::All, after);
    drop(wait(5));
    watches.apply(StreamEvent::Created { id: 1, revision: 5 });
    let mut again = wait(9);
    assert_eq!(watches.armed(1).map(|watch| watch.from), Some(0));
    let started = std::iter::from_fn(|| commands.try_recv().ok());
    assert_eq!(started.filter(|command| matches!(command, Command::Start(_))).count(), 1);
    leaves(&watches, b"q/ahead", 11);
    assert_eq!(again.notified().await, Notified::Event(Vec::new()));
}

#[tokio::test]
async fn the_watch_of_the_last_predecessor_is_kept_for_the_next_wait() {
    let (watches, mut commands) = Watches::new();
    let mut started = move || {
        std::iter::from_fn(|| commands.try_recv().ok())
            .filter(|command| matches!(command, Command::Start(_)))
            .count()
    };
    drop(watches.departure_of_key("q/", b"q/a", 5));
    let again = watches.departure_of_key("q/", b"q/a", 9);
    assert_eq!(started(), 1);
    // It began too late for a waiter that listed before.
    let _early = watches.departure_of_key("q/", b"q/a", 4);
    assert_eq!(started(), 1);
    drop(again);
    let _other = watches.departure_of_key("q/", b"q/b", 13);
    assert!(watches.armed(1).is_none(), "no waiter is left");
}

/// A notice from before the answer to the join counts.
#[tokio::test]
async fn inbox_reports_notices_written_after_the_listing() {
    let (watches, _commands) = Watches::new();
    let inbox =
        |name: &str| Inbox { prefix: "c/1/next/".to_owned(), key: format!("c/1/next/{name}"), lease: 1 };
    let mut first = watches.inbox(&inbox("a"), 4);
    watches.apply(StreamEvent::Created { id: 1, revision: 5 });
    assert_eq!(first.notified().await, Notified::Missed, "listed before the watch began");
    let write = |revision, value: &[u8]| {
        let changes = vec![Change { key: b"c/1/next/a".to_vec(), value: value.to_vec(), revision }];
        watches.apply(StreamEvent::Changed { id: 1, revision, changes });
    };
    write(7, b"early");
    let mut later = watches.inbox(&inbox("a"), 7);
    let mut joined = watches.inbox(&inbox("a"), 6);
    assert_eq!(joined.notified().await, Notified::Event(b"early".to_vec()));
    write(9, b"next");
    assert_eq!(later.notified().await, Notified::Event(b"next".to_vec()));
}
