use latchwork_core::Clock;
use latchwork_core::contracts::{Lease, NodeState};

use super::*;
use crate::terms::{Change, Notice};

pub(crate) fn own(key: &[u8], sequence: u64) -> Arc<Own> {
    let clock = Clock::system();
    let lease = Lease::new(clock.clone(), Duration::from_secs(10), clock.now());
    Arc::new(Own { key: key.into(), state: NodeState::new(lease, sequence), left: None })
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
    assert_eq!(wait.seen().await, Seen::Event);
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
async fn the_neighbour_is_who_was_watched_twice_and_is_told_to_one() {
    let (watches, _commands) = Watches::new();
    let far = |key: &[u8], after| watches.departure_in_turn("q/", key, true, after, 0).0;
    assert_eq!(watches.neighbour("q/"), None);
    drop(far(b"q/a", 5));
    assert_eq!(watches.neighbour("q/"), None, "watched once");
    let again = far(b"q/a", 9);
    assert_eq!(watches.neighbour("q/"), None, "another of this client waits for it");
    drop(again);
    assert_eq!(watches.neighbour("other/"), None);
    assert_eq!(watches.neighbour("q/").as_deref(), Some(&b"q/a"[..]));
    assert_eq!(watches.neighbour("q/"), None, "told already");
    drop(far(b"q/a", 13));
    assert_eq!(watches.neighbour("q/").as_deref(), Some(&b"q/a"[..]), "it was waited for");
    drop(far(b"q/b", 17));
    assert_eq!(watches.neighbour("q/"), None, "it has changed");
    drop(far(b"q/b", 21));
    watches.near_head("q/");
    assert_eq!(watches.neighbour("q/"), None, "no more far from the head");
    for after in [25, 29] {
        drop(watches.departure_in_turn("q/", b"q/b", false, after, 0));
    }
    assert_eq!(watches.neighbour("q/"), None, "a reader's");
}
