use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::memory::{self, Link, Memory};
use latchwork_core::recipes::{QuorumGuard, QuorumLock};
use latchwork_core::{
    Clock, Config, Coordinator, Ended, ErrorKind, HoldState, LostReason, connect, connect_lazy,
};
use tokio::time::{Instant, sleep};

use crate::common::fails;

const TTL: Duration = Duration::from_secs(10);
const TRIP: Duration = Duration::from_millis(100);
const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];

struct Servers(Vec<Memory>);

struct Client {
    coordinators: Vec<Coordinator>,
    links: Vec<Link>,
}

impl Servers {
    fn start(members: usize) -> Self {
        let clock = Clock::tokio();
        Self((0..members).map(|_| Memory::new(clock.clone())).collect())
    }

    fn client(&self) -> Client {
        let connected = self.0.iter().zip(NAMES).map(|(store, name)| {
            let mut config = Config::new("memory");
            (config.name, config.ttl) = (Some(name.to_owned()), TTL);
            store.connect(&config).expect("connected")
        });
        let (coordinators, links) = connected.unzip();
        Client { coordinators, links }
    }

    fn clients<const COUNT: usize>(&self) -> [Client; COUNT] {
        [(); COUNT].map(|()| self.client())
    }

    async fn initialized(members: usize) -> Self {
        let servers = Self::start(members);
        servers.client().lock().initialize().await.expect("initialized");
        servers
    }
}

impl Client {
    fn lock(&self) -> QuorumLock {
        QuorumLock::new("x", self.coordinators.clone(), TTL).expect("good members")
    }

    fn trusting(&self) -> QuorumLock {
        QuorumLock::trusting("x", self.coordinators.clone(), TTL).expect("good members")
    }
}

fn held(guard: &QuorumGuard) -> Vec<bool> {
    guard.sequences().iter().map(Option::is_some).collect()
}

async fn until(what: &str, is_so: impl AsyncFn() -> bool) {
    let from = Instant::now();
    while !is_so().await {
        assert!(from.elapsed() < 10 * TTL, "this did not happen: {what}");
        sleep(TRIP).await;
    }
}

#[tokio::test(start_paused = true)]
async fn invalid_quorum_members_are_refused_by_name() {
    let store = Memory::new(Clock::tokio());
    let named = |name: Option<&str>| {
        let mut config = Config::new("memory");
        config.name = name.map(str::to_owned);
        store.connect(&config).expect("connected").0
    };
    let (one, two, unnamed) = (named(Some("one")), named(Some("two")), named(None));
    let refused = |key: &str, members: &[&Coordinator], longest| {
        let members = members.iter().map(|&member| member.clone());
        QuorumLock::new(key, members, longest).expect_err("refused").to_string()
    };
    assert!(refused("x", &[], TTL).contains("`members`: the list of coordinators is empty"));
    assert!(refused("", &[&one, &two], TTL).contains("`key`"));
    let name = refused("x", &[&one, &unnamed], TTL);
    assert!(name.contains("`name`: a coordinator has no name"), "{name}");
    let twice = refused("x", &[&one, &one], TTL);
    assert!(twice.contains("`name`: two coordinators have the name \"one\""), "{twice}");
    let short = refused("x", &[&one, &two], TTL / 2);
    assert!(short.contains("`longest_ttl`: is 5s"), "{short}");
    assert!(QuorumLock::new("x", [unnamed], TTL).is_ok(), "a single coordinator needs no name");
}

#[tokio::test(start_paused = true)]
async fn two_names_and_two_namespaces_of_one_server_are_refused() {
    let store = "one-server-of-a-quorum";
    let _store = Memory::named(store, Clock::tokio()).expect("a new store");
    let of = async |name: &str, namespace: &str| {
        let url = format!("memory://{store}?name={name}&namespace={namespace}&ttl=10s");
        connect(&[memory::connector()], &url.parse().expect("a good URL")).await.expect("connected")
    };
    let (a, b, c) = (of("a", "one").await, of("b", "one").await, of("c", "other").await);
    for (members, named) in
        [([&a, &b], r#""a" and "b" are one server"#), ([&a, &c], r#""a" and "c" are one server"#)]
    {
        let lock = QuorumLock::new("x", members.map(Clone::clone), TTL).expect("two names");
        let errors =
            [lock.acquire().await.map(drop), lock.try_acquire().await.map(drop), lock.initialize().await];
        for error in errors.map(|answer| answer.expect_err(named)) {
            assert!(error.argument() == Some("members") && error.to_string().contains(named), "{error}");
        }
    }
    let elsewhere = Memory::named("another-server-of-a-quorum", Clock::tokio()).expect("a new store");
    let url = "memory://another-server-of-a-quorum?name=d&ttl=10s".parse().expect("a good URL");
    let d = connect(&[memory::connector()], &url).await.expect("connected");
    let lock = QuorumLock::new("x", [a, d], TTL).expect("two names");
    lock.initialize().await.expect("two servers");
    drop((lock.acquire().await.expect("acquired"), elsewhere));
}

#[tokio::test(start_paused = true)]
async fn servers_without_a_marker_count_after_the_longest_ttl_or_when_they_are_declared_new() {
    let (servers, from) = (Servers::start(3), Instant::now());
    let lock = servers.client().lock();
    fails(lock.try_acquire().await, ErrorKind::Unavailable, "no server counts");
    let guard = lock.acquire().await.expect("acquired");
    assert!(from.elapsed() >= TTL && from.elapsed() < TTL + Duration::from_secs(2), "{:?}", from.elapsed());
    guard.release().await.unwrap();
    let from = Instant::now();
    drop(servers.client().lock().acquire().await.expect("acquired"));
    assert!(from.elapsed() < TRIP);

    let from = Instant::now();
    drop(Servers::initialized(3).await.client().lock().acquire().await.expect("acquired"));
    assert!(from.elapsed() < TRIP);
}

#[tokio::test(start_paused = true)]
async fn other_terms_count_after_the_markers_are_deleted() {
    let clients = Servers::initialized(3).await.client();
    let longer = QuorumLock::new("x", clients.coordinators.clone(), 2 * TTL).expect("good members");
    fails(longer.acquire().await, ErrorKind::Conflict, "other terms");
    longer.reset().await.expect("deleted");
    let from = Instant::now();
    drop(longer.acquire().await.expect("acquired"));
    assert!(from.elapsed() >= 2 * TTL, "{:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn an_acquisition_takes_as_long_as_the_slowest_of_the_fastest_majority_and_others_join_late() {
    let clients = Servers::initialized(5).await.client();
    let lock = clients.lock();
    // The first acquisition of a client also reads the markers.
    let guard = lock.acquire().await.unwrap();
    until("all join", async || held(&guard) == [true; 5]).await;
    guard.release().await.unwrap();
    sleep(TRIP).await;
    for (link, trips) in clients.links.iter().zip([9, 1, 3, 2, 12]) {
        link.delay(trips * TRIP);
    }
    let from = Instant::now();
    let guard = lock.acquire().await.unwrap();
    let took = from.elapsed();
    assert!(took >= 3 * TRIP && took < 4 * TRIP, "{took:?}");
    assert_eq!((held(&guard), guard.waited()), (vec![false, true, true, true, false], took));
    sleep(13 * TRIP).await;
    assert_eq!(held(&guard), [true; 5]);
    let from = Instant::now();
    guard.release().await.unwrap();
    assert!(from.elapsed() >= 3 * TRIP && from.elapsed() < 4 * TRIP, "{:?}", from.elapsed());
    guard.release().await.unwrap();
    assert_eq!(guard.lost().ended(), Some(Ended::Released));
}

#[tokio::test(start_paused = true)]
async fn a_hold_outlives_a_minority_and_is_lost_with_the_majority() {
    let servers = Servers::initialized(3).await;
    let [clients, others] = servers.clients();
    let guard = clients.lock().acquire().await.unwrap();
    until("all join", async || held(&guard) == [true; 3]).await;
    clients.links[1].cut();
    sleep(3 * TTL).await;
    assert_eq!((held(&guard), guard.state()), (vec![true, false, true], HoldState::Held));
    assert!(guard.remaining() > TTL / 2 && others.lock().try_acquire().await.unwrap().is_none());
    clients.links[1].heal();
    until("it joins again", async || held(&guard) == [true; 3]).await;

    let lost = guard.lost();
    clients.links[0].cut();
    clients.links[2].cut();
    let from = Instant::now();
    assert_eq!(lost.await, Ended::Lost(LostReason::Expired));
    assert!(from.elapsed() <= TTL, "{:?}", from.elapsed());
    assert!(!guard.is_held() && guard.remaining().is_zero());
    // The client gives the other members back, and a healed member does not revive the hold.
    until("all are free", async || others.lock().try_acquire().await.unwrap().is_some()).await;
    clients.links.iter().for_each(Link::heal);
    sleep(TTL).await;
    assert_eq!(guard.release().await.unwrap_err().lost_reason(), Some(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn quorum_validity_follows_the_qth_best_member() {
    let clients = Servers::initialized(3).await.client();
    let guard = clients.lock().acquire().await.unwrap();
    until("all join", async || held(&guard) == [true; 3]).await;
    // Two members are no longer renewed, the second one from later on.
    clients.links[0].cut();
    sleep(TTL / 2).await;
    clients.links[1].cut();
    let deadline = |of: usize| {
        let lease = clients.coordinators[of].lease();
        lease.deadline().since(lease.clock().now())
    };
    sleep(TTL / 4).await;
    let mut left: Vec<_> = (0..3).map(deadline).collect();
    left.sort_unstable();
    assert_eq!(guard.remaining(), left[1]);
    assert!(left[0] < left[1] && left[1] < left[2], "{left:?}");
    assert_eq!(guard.state(), HoldState::Held, "a renewal at the second member is not overdue yet");
    sleep(TTL / 4).await;
    assert_eq!(guard.state(), HoldState::Suspended);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_forgotten_a_hold_does_not_count_until_the_hold_has_ended() {
    for (guarded, overlap) in [(true, false), (false, true)] {
        let servers = Servers::initialized(3).await;
        let [one, two] = servers.clients();
        let locks = [&one, &two].map(|clients| if guarded { clients.lock() } else { clients.trusting() });
        // The second client knows that all servers count.
        drop(locks[1].acquire().await.unwrap());
        sleep(TRIP).await;
        one.links[2].cut();
        let guard = locks[0].acquire().await.unwrap();
        assert_eq!(held(&guard), [true, true, false]);
        // The second client reaches both servers, and the first does not notice the loss of data.
        one.links[1].cut();
        servers.0[1].wipe();
        let second = locks[1].acquire().within(TTL / 2).await;
        assert_eq!((second.is_ok(), guard.is_held()), (overlap, true), "guarded: {guarded}, {second:?}");
        if guarded {
            drop(second);
            let second = locks[1].acquire().await.unwrap();
            assert!(!guard.is_held());
            drop(second);
        }
    }
}

/// A service that initializes at each start.
#[tokio::test(start_paused = true)]
async fn initialize_vouches_for_no_server_while_another_one_has_a_marker() {
    let servers = Servers::initialized(3).await;
    let [one, two] = servers.clients();
    one.links[2].cut();
    let guard = one.lock().acquire().await.unwrap();
    assert_eq!(held(&guard), [true, true, false]);
    // The first client does not notice the loss of data.
    one.links[1].cut();
    servers.0[1].wipe();
    two.lock().initialize().await.unwrap();
    // Another marker shows that the quorum is not new, so no refusal is needed for a server that is away.
    two.links[0].cut();
    two.lock().initialize().await.unwrap();
    two.links[0].heal();
    let second = two.lock().acquire().within(TTL / 2).await;
    fails(second, ErrorKind::Timeout, "a member may have forgotten");
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn initialize_writes_nothing_while_a_server_is_away_and_none_is_known_to_have_a_marker() {
    let servers = Servers::start(3);
    let client = servers.client();
    client.links[1].cut();
    fails(client.lock().initialize().await, ErrorKind::Unavailable, "it may have a marker");
    client.links[1].heal();
    fails(client.lock().try_acquire().await, ErrorKind::Unavailable, "no server counts");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgets_between_look_and_join_does_not_count() {
    let servers = Servers::initialized(3).await;
    let [one, two] = servers.clients();
    let lock = two.lock();
    drop(lock.acquire().await.unwrap());
    sleep(TTL).await;
    one.links[0].cut();
    let guard = one.lock().acquire().await.unwrap();
    two.links.iter().for_each(|link| link.delay(TRIP));
    let trying = tokio::spawn(async move { lock.try_acquire().await });
    sleep(TRIP / 2).await;
    servers.0[1].wipe();
    servers.0[2].wipe();
    fails(trying.await.unwrap(), ErrorKind::Unavailable, "they do not count");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn without_a_majority_it_fails_in_time_and_holds_nothing() {
    let servers = Servers::initialized(5).await;
    let clients = servers.client();
    let lock = clients.lock();
    drop(lock.acquire().await.unwrap());
    sleep(TRIP).await;
    clients.links[..3].iter().for_each(Link::cut);
    let from = Instant::now();
    let error = fails(lock.acquire().within(TTL / 2).await, ErrorKind::Unavailable, "three are down");
    assert_eq!(error.key(), Some("x"), "{error}");
    assert!(from.elapsed() < TTL / 2 + TRIP, "{:?}", from.elapsed());
    fails(lock.try_acquire().await, ErrorKind::Unavailable, "three are down");
    let from = Instant::now();
    fails(lock.acquire().fail_fast().await, ErrorKind::Unavailable, "three are down");
    assert!(from.elapsed() < TTL / 2, "{:?}", from.elapsed());
    let from = Instant::now();
    fails(lock.acquire().await, ErrorKind::Unavailable, "three are down");
    assert!(from.elapsed() < 2 * TTL, "{:?}", from.elapsed());
    sleep(TRIP).await;
    let others = servers.client();
    for mutex in others.lock().members() {
        assert!(mutex.queue().first(10).await.unwrap().is_empty(), "nothing is held");
    }
    clients.links[0].heal();
    drop(lock.acquire().await.expect("three are up"));
}

#[tokio::test(start_paused = true)]
async fn contenders_hold_one_at_a_time_and_none_waits_for_ever() {
    for members in [2, 3, 5] {
        let servers = Servers::initialized(members).await;
        let (inside, turns) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks: Vec<_> = (0..6)
            .map(|task| {
                let (clients, inside, turns) = (servers.client(), Arc::clone(&inside), Arc::clone(&turns));
                tokio::spawn(async move {
                    let lock = clients.lock();
                    for turn in 0..8 {
                        let down = (task + turn) % 7;
                        if let Some(link) = clients.links.get(down).filter(|_| members > 2) {
                            link.cut();
                        }
                        let guard = lock.acquire().await.expect("acquired");
                        assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0, "two clients hold");
                        sleep(Duration::from_millis(3 * task as u64)).await;
                        assert!(guard.is_held());
                        inside.fetch_sub(1, Ordering::AcqRel);
                        turns.fetch_add(1, Ordering::AcqRel);
                        guard.release().await.unwrap();
                        clients.links.iter().for_each(Link::heal);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        assert_eq!(turns.load(Ordering::Acquire), 48);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_another_never_releases_is_done_without() {
    let [one, two, three] = Servers::initialized(3).await.clients();
    let stuck = three.lock().members()[0].acquire().await.unwrap();
    let guard = one.lock().acquire().await.unwrap();
    assert_eq!(held(&guard), [false, true, true]);
    let lock = two.lock();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", async || three.lock().members()[0].queue().first(10).await.unwrap().len() == 2).await;
    guard.release().await.unwrap();
    let from = Instant::now();
    let guard = waiting.await.unwrap().expect("acquired");
    assert!(from.elapsed() <= TTL + TRIP, "{:?}", from.elapsed());
    stuck.release().await.unwrap();
    until("it joins", async || held(&guard) == [true; 3]).await;
}

#[tokio::test(start_paused = true)]
async fn a_fixed_end_ends_all_members_and_a_least_time_keeps_them() {
    let [one, two] = Servers::initialized(3).await.clients();
    let from = Instant::now();
    let guard = one.lock().acquire().max_hold(TTL).await.unwrap();
    assert_eq!(guard.lost().await, Ended::Lost(LostReason::MaxHold));
    assert!(from.elapsed() <= TTL + TRIP, "{:?}", from.elapsed());
    let lock = two.lock();
    let second = lock.acquire().min_hold(TTL).await.unwrap();
    let from = Instant::now();
    second.release().await.unwrap();
    drop(one.lock().acquire().await.unwrap());
    assert!(from.elapsed() >= TTL - TRIP, "{:?}", from.elapsed());
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn release_after_max_hold_leaves_at_once() {
    let [one, two] = Servers::initialized(3).await.clients();
    let guard = one.lock().acquire().max_hold(TTL / 2).await.unwrap();
    assert_eq!(guard.lost().await, Ended::Lost(LostReason::MaxHold));
    assert_eq!(guard.release().await.unwrap_err().lost_reason(), Some(LostReason::MaxHold));
    let from = Instant::now();
    drop(two.lock().acquire().await.unwrap());
    let margin = one.coordinators[0].lease().margin();
    assert!(from.elapsed() < margin / 2, "{:?} of {margin:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquisition_and_a_dropped_guard_leave_nothing() {
    let [one, two] = Servers::initialized(3).await.clients();
    let guard = one.lock().acquire().await.unwrap();
    let lock = two.lock();
    let waiting = tokio::spawn(async move { lock.acquire().await });
    until("it waits", async || one.lock().members()[0].queue().first(10).await.unwrap().len() == 2).await;
    waiting.abort();
    drop(guard);
    drop(one.lock().try_acquire().await.unwrap().expect("free again"));
    sleep(TRIP).await;
    for mutex in one.lock().members() {
        assert!(mutex.queue().first(10).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn lazy_coordinators_connect_at_the_first_acquisition() {
    let members = ["a", "b", "c"].map(|name| {
        let config = Config::from_url(&format!("memory://lazy-{name}?name={name}&ttl=10s")).unwrap();
        connect_lazy(&[memory::connector()], &config).unwrap()
    });
    let lock = QuorumLock::new("x", members, TTL).unwrap();
    fails(lock.try_acquire().await, ErrorKind::Unavailable, "no server counts");
    lock.reset().await.unwrap();
    lock.initialize().await.unwrap();
    let guard = lock.try_acquire().await.unwrap().expect("free");
    guard.release().await.unwrap();
}
