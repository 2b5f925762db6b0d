use latchwork_core::Clock;
use latchwork_core::contracts::{LeaseKeeper, NodeKeeper};

use super::*;
use crate::keys::Inbox;
use crate::terms::{Change, Notice};

pub(crate) fn own(key: &[u8], sequence: u64) -> Arc<Own> {
    let clock = Clock::system();
    let lease = LeaseKeeper::new(clock.clone(), Duration::from_secs(10), clock.now());
    Arc::new(Own { key: key.into(), state: NodeKeeper::new(lease, sequence), left: None })
}

fn leaves(watches: &Watches, key: &[u8], revision: u64) {
    watches.apply(Notice::Changed {
        id: 1,
        revision,
        changes: vec![Change { key: key.to_vec(), value: Vec::new(), revision }],
    });
}

#[tokio::test]
async fn a_node_that_left_before_its_join_was_answered_is_told_so() {
    let (watches, _commands) = Watches::new();
    // Another of this client's waiters has the feed watched.
    let _other = watches.departure("q/", vec![b"q/other".to_vec()], Until::Any, 5);
    watches.apply(Notice::Created { id: 1, revision: 5 });
    leaves(&watches, b"q/later", 9);
    leaves(&watches, b"q/own", 11);
    leaves(&watches, b"q/pred", 12);
    // Made at 10, both of them, under names that were used before.
    let (gone, here) = (own(b"q/own", 10), own(b"q/later", 10));
    watches.register(Arc::clone(&gone));
    watches.register(Arc::clone(&here));
    assert_eq!(gone.state.lost(), Some(LostReason::Revoked));
    assert!(!watches.is_own(&gone));
    assert_eq!(here.state.lost(), None);
    let mut wait = watches.departure("q/", vec![b"q/pred".to_vec()], Until::All, 10);
    assert_eq!(wait.seen().await, Seen::Event(Vec::new()));
    leaves(&watches, b"q/later", 13);
    assert_eq!(here.state.lost(), Some(LostReason::Revoked));
}

#[tokio::test]
async fn a_watch_that_goes_on_in_the_next_stream_is_not_started_twice() {
    let (watches, mut commands) = Watches::new();
    let held = own(b"q/own", 10);
    watches.register(Arc::clone(&held));
    watches.watch_own_from(&held, 10);
    let _wait = watches.key(b"q/other".to_vec(), Only::Deletes, 10);
    // The commands to start them wait, and the stream ends.
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
async fn the_last_predecessor_is_watched_on_for_whoever_is_behind_it_again() {
    let (watches, mut commands) = Watches::new();
    let mut started = move || {
        std::iter::from_fn(|| commands.try_recv().ok())
            .filter(|command| matches!(command, Command::Start(_)))
            .count()
    };
    drop(watches.departure_of_key("q/", b"q/a", 5));
    let again = watches.departure_of_key("q/", b"q/a", 9);
    assert_eq!(started(), 1);
    // It began too late for one that has listed before.
    let _early = watches.departure_of_key("q/", b"q/a", 4);
    assert_eq!(started(), 1);
    drop(again);
    let _other = watches.departure_of_key("q/", b"q/b", 13);
    assert!(watches.armed(1).is_none(), "nobody is behind it");
}

/// What was said before the join was answered is heard, and what was said to an earlier node of the name is not.
#[tokio::test]
async fn an_inbox_tells_what_was_said_since_the_listing() {
    let (watches, _commands) = Watches::new();
    let inbox =
        |name: &str| Inbox { prefix: "c/1/next/".to_owned(), key: format!("c/1/next/{name}"), lease: 1 };
    let mut first = watches.inbox(&inbox("a"), 4);
    watches.apply(Notice::Created { id: 1, revision: 5 });
    assert_eq!(first.seen().await, Seen::Look, "listed before it was watched");
    let said = |revision, value: &[u8]| {
        let changes = vec![Change { key: b"c/1/next/a".to_vec(), value: value.to_vec(), revision }];
        watches.apply(Notice::Changed { id: 1, revision, changes });
    };
    said(7, b"early");
    let mut later = watches.inbox(&inbox("a"), 7);
    let mut joined = watches.inbox(&inbox("a"), 6);
    assert_eq!(joined.seen().await, Seen::Event(b"early".to_vec()));
    said(9, b"next");
    assert_eq!(later.seen().await, Seen::Event(b"next".to_vec()));
}
