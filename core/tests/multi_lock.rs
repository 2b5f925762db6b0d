use std::time::Duration;

use futures_util::StreamExt;
use latchwork_core::memory::{self, Link, Memory};
use latchwork_core::recipes::{MultiLock, MultiMember, QuorumLock};
use latchwork_core::{Clock, Config, Coordinator, Ended, ErrorKind, HoldState, LostReason, connect};
use tokio::time::{Instant, sleep};

use crate::common::{Clients, clients, fails, registered};

const TRIP: Duration = Duration::from_millis(100);

fn connected(store: &Memory, name: Option<&str>) -> (Coordinator, Link) {
    let mut config = Config::new("memory");
    config.name = name.map(str::to_owned);
    store.connect(&config).expect("connected")
}

fn members(coordinator: &Coordinator, keys: &[&str]) -> Vec<MultiMember> {
    keys.iter().map(|key| coordinator.mutex(*key).expect("a good key").into()).collect()
}

fn lock(coordinator: &Coordinator, keys: &[&str]) -> MultiLock {
    MultiLock::new(members(coordinator, keys)).expect("good members")
}

/// "a" on a coordinator and "b" on another one, with the link of the second.
fn of_two_coordinators() -> (Coordinator, MultiLock, Link) {
    let store = Memory::new(Clock::tokio());
    let ((one, _), (two, link)) = (connected(&store, Some("one")), connected(&store, Some("two")));
    let both = MultiLock::new([members(&one, &["a"]), members(&two, &["b"])].concat()).unwrap();
    (one, both, link)
}

#[tokio::test(start_paused = true)]
async fn one_lock_under_two_names_of_its_server_is_refused() {
    let store = "one-server-of-several-locks";
    let _store = Memory::named(store, Clock::tokio()).expect("a new store");
    let of = async |name: &str, namespace: &str| {
        let url = format!("memory://{store}?name={name}&namespace={namespace}");
        connect(&[memory::connector()], &url.parse().expect("a good URL")).await.expect("connected")
    };
    let (a, b, c) = (of("a", "one").await, of("b", "one").await, of("c", "other").await);
    let twice = MultiLock::new([members(&a, &["x"]), members(&b, &["y", "x"])].concat()).expect("two names");
    let error = twice.acquire().await.expect_err("it would wait for itself");
    assert_eq!(error.argument(), Some("members"), "{error}");
    assert!(error.to_string().contains(r#"the coordinators "a" and "b" are one server"#), "{error}");
    for other in [members(&b, &["y"]), members(&c, &["x"])] {
        let lock = MultiLock::new([members(&a, &["x"]), other].concat()).expect("two names");
        lock.acquire().await.expect("two locks").release().await.expect("released");
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_covers_the_check_that_the_servers_differ() {
    let ((one, link), (two, _)) = (registered("one").await, registered("two").await);
    let (first, within) = (Instant::now(), TRIP);
    link.delay(10 * TRIP);
    let several = MultiLock::new([members(&one, &["a"]), members(&two, &["a"])].concat()).expect("two names");
    fails(several.acquire().within(within).await, ErrorKind::Timeout, "late");
    assert_eq!(first.elapsed(), within);
    let majority = QuorumLock::new("a", [one.clone(), two], one.lease().ttl()).expect("two names");
    fails(majority.acquire().within(within).await, ErrorKind::Unavailable, "late");
    assert_eq!(first.elapsed(), 2 * within);
}

#[tokio::test(start_paused = true)]
async fn members_that_have_no_order_are_refused_by_name() {
    let Clients { store, client: one, other: two, .. } = clients();
    let named = [connected(&store, Some("a")).0, connected(&store, Some("a")).0];
    let refused = |members: Vec<MultiMember>| MultiLock::new(members).expect_err("no order").to_string();

    assert!(refused(Vec::new()).contains("`members`: the list of locks is empty"));
    assert!(
        refused(members(&one, &["x", "y", "x"]))
            .starts_with("\"x\": invalid argument `members`: the lock is given twice")
    );
    let mut same = members(&one, &["x"]);
    same.push(one.mutex("x").unwrap().into());
    assert!(refused(same).contains("given twice"));
    let unnamed = refused([members(&one, &["x"]), members(&two, &["y"])].concat());
    assert!(unnamed.contains("`name`: two coordinators have no name"), "{unnamed}");
    let twice = refused([members(&named[0], &["x"]), members(&named[1], &["y"])].concat());
    assert!(twice.contains("`name`: two coordinators have the name \"a\""), "{twice}");

    // Clones are one coordinator, and one of two coordinators may have no name.
    assert!(MultiLock::new([members(&one, &["x"]), members(&one.clone(), &["y"])].concat()).is_ok());
    assert!(MultiLock::new([members(&one, &["x"]), members(&named[0], &["x"])].concat()).is_ok());
    let error = lock(&one, &["x"]).acquire().within(Duration::ZERO).await.expect_err("zero");
    assert_eq!(error.argument(), Some("within"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn all_are_acquired_and_released_in_one_round_trip_each() {
    let store = Memory::new(Clock::tokio());
    let (one, link) = connected(&store, None);
    let three = lock(&one, &["c", "a", "b"]);
    three.acquire().await.unwrap().release().await.unwrap();
    link.delay(TRIP);
    let begun = Instant::now();
    let guard = three.acquire().await.unwrap();
    let acquired = begun.elapsed();
    assert_eq!(guard.waited(), acquired);
    guard.release().await.unwrap();
    let released = begun.elapsed() - acquired;
    assert!(acquired <= 2 * TRIP && released <= 2 * TRIP, "{acquired:?}, {released:?}");
    assert_eq!(guard.addresses().iter().map(|address| address.name()).collect::<Vec<_>>(), ["c", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_during_the_wait_begins_the_acquisition_again() {
    let Clients { client: one, link, other: two, .. } = clients();
    let holder = two.mutex("b").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock(&one, &["a", "b"]);
        async move { lock.acquire().within(Duration::from_secs(120)).await }
    });
    let queue = two.mutex("a").unwrap();
    while queue.queue().first(10).await.unwrap().is_empty() {
        sleep(TRIP).await;
    }
    let first = queue.queue().first(10).await.unwrap()[0].sequence;
    link.cut();
    sleep(2 * one.lease().ttl()).await;
    assert!(queue.queue().first(10).await.unwrap().is_empty(), "the lease has ended");
    link.heal();
    while queue.queue().first(10).await.unwrap().is_empty() {
        sleep(TRIP).await;
    }
    assert!(!waiting.is_finished());
    holder.release().await.unwrap();
    let guard = waiting.await.unwrap().expect("acquired under a new lease");
    assert!(guard.tokens()[0].expect("a mutex").sequence() > first && guard.is_held());
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn multi_guard_states_follow_the_worst_member() {
    let (one, both, link) = of_two_coordinators();
    let guard = both.acquire().await.unwrap();
    let mut states = guard.states();
    assert_eq!(states.next().await, Some(HoldState::Held));
    link.cut();
    assert_eq!(states.next().await, Some(HoldState::Suspended));
    assert!(guard.is_held());
    assert_eq!(states.next().await, Some(HoldState::Ended(Ended::Lost(LostReason::Expired))));
    assert_eq!(states.next().await, None);
    assert_eq!(guard.lost().key(), "b");
    link.heal();
    assert_eq!(guard.release().await.unwrap_err().lost_reason(), Some(LostReason::Expired));
    assert!(one.mutex("a").unwrap().try_acquire().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_one_coordinator_is_waited_for_and_named() {
    let (one, both, link) = of_two_coordinators();
    link.cut();
    for answer in [both.try_acquire().await.map(drop), both.acquire().fail_fast().await.map(drop)] {
        assert_eq!(fails(answer, ErrorKind::Unavailable, "no answer").key(), Some("b"));
    }
    assert!(one.mutex("a").unwrap().try_acquire().await.unwrap().is_some(), "nothing stays held");
    let waiting = tokio::spawn({
        let both = both.clone();
        async move { both.acquire().within(Duration::from_secs(60)).await }
    });
    sleep(Duration::from_secs(30)).await;
    link.heal();
    let guard = waiting.await.unwrap().expect("acquired after the outage");
    guard.release().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_close_ends_the_acquisition_as_closed_and_leaves_nothing() {
    let Clients { store, client: one, other: two, .. } = clients();
    let holder = two.mutex("b").unwrap().acquire().await.unwrap();
    let waiting = tokio::spawn({
        let lock = lock(&one, &["a", "b"]);
        async move { lock.acquire().await }
    });
    while two.mutex("b").unwrap().queue().first(10).await.unwrap().len() < 2 {
        sleep(TRIP).await;
    }
    one.close().await.unwrap();
    fails(waiting.await.unwrap(), ErrorKind::Closed, "closed");
    holder.release().await.unwrap();
    assert_eq!(store.contents(), Vec::<String>::new());
}
