use futures_util::FutureExt;

use super::super::link::Link;
use super::*;
use crate::address::Kind;
use crate::config::Config;
use crate::coordinator::Coordinator;
use crate::decide::queue::TOMBSTONE;

fn connected(store: &Memory) -> (Coordinator, Link) {
    store.connect(&Config::new("memory")).expect("connected")
}

#[tokio::test(start_paused = true)]
async fn a_join_that_is_under_way_at_a_close_opens_no_lease() {
    let store = Memory::new(Clock::tokio());
    let (coordinator, link) = connected(&store);
    let mutex = coordinator.mutex("a").expect("a good key");
    link.cut();
    coordinator.lease().until_lost().await;
    link.heal();
    link.hold();
    let mut joining = Box::pin(mutex.acquire());
    assert!((&mut joining).now_or_never().is_none());
    link.held().await;
    coordinator.close().await.expect("closed");
    link.resume();
    assert_eq!(joining.await.expect_err("closed").kind(), ErrorKind::Closed);
    assert_eq!(coordinator.lease().lost(), Some(LostReason::Expired));
    assert!(store.0.state.lock().leases.is_empty());
}

#[tokio::test(start_paused = true)]
async fn node_of_a_dead_client_in_an_unused_queue_is_forgotten() {
    let store = Memory::new(Clock::tokio());
    let ((alive, _), (dead, _)) = (connected(&store), connected(&store));
    let _guard = dead.mutex("a").expect("a good key").acquire().await.expect("acquired");
    crate::crash(&dead).await;
    tokio::time::sleep(2 * alive.lease().ttl()).await;
    let state = store.0.state.lock();
    assert_eq!((state.queues.len(), state.live.len(), state.leases.len()), (0, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn the_queue_of_an_abandoned_attempt_is_forgotten_with_its_tombstone() {
    let store = Memory::new(Clock::tokio());
    let (alive, _) = connected(&store);
    store.abandon(alive.mutex("a").expect("a good key").address(), NodeId::random());
    for queues in [1, 0] {
        tokio::time::sleep(TOMBSTONE * 3 / 4).await;
        assert_eq!(store.0.state.lock().queues.len(), queues);
    }
}

#[test]
fn dropped_watches_are_swept_seldom_and_all_in_the_end() {
    let mut state = StoreState::default();
    let address = |number: usize| Address::new("n", Kind::Passage, format!("k{number}")).expect("a good key");
    let mut live = Vec::new();
    let mut add = |number, live: &mut Vec<_>| {
        live.push(Arc::default());
        state.add_watch(&address(number), live.last().expect("just added"))
    };
    let sweeps = (0..20_000).filter(|&number| add(number, &mut live)).count();
    assert!(sweeps < 20, "{sweeps}");
    live.clear();
    let swept = (20_000..60_000).find(|&number| add(number, &mut live));
    assert!(swept.is_some(), "no sweep among 40,000 watches");
    assert_eq!(state.watches.len(), live.len());
}
