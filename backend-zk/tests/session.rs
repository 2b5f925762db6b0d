//! The session as a lease: kept, lost, opened anew; and requests whose replies are lost.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{
    address, admitted, backend, config, coordinator, holds, join, one_proxied, own_server, server, soon,
    stranger, try_backend, waiting,
};
use futures_util::future::{BoxFuture, join_all};
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use latchwork_conformance::proxy::{Direction, Event, Proxy};
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::{Backend, Close, Join, Joined, LeaseState, Page};
use latchwork_core::decide::Claim::Exclusive;
use latchwork_core::recipes::Permit;
use latchwork_core::{Config, Coordinator, ErrorKind, Hold, Kind, LostReason, encode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio::task::JoinSet;

const ALL: Page = Page { after: 0, most: 100 };
/// ZooKeeper's number of the request that makes a node and answers its stat.
const CREATE2: i32 = 15;
/// And of the one that writes a node: here a proof of contact.
const SET_DATA: i32 = 5;
/// And of those that read a node, and that list one.
const READ: i32 = 4;
const LIST: i32 = 8;

async fn through(proxy: &Proxy) -> Config {
    config(&proxy.addr().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_healthy_lease_of_six_seconds_lives_for_nine() {
    let mut config = config(server().await.addr());
    // Of a shorter one a machine that stands still for a second takes the time between renewal and deadline.
    config.ttl = Duration::from_secs(6);
    let backend = backend(&config).await;
    let lease = backend.lease();
    assert_eq!(lease.ttl(), Duration::from_secs(6));
    let lost = tokio::time::timeout(lease.ttl() * 3 / 2, lease.until_lost()).await;
    assert!(lost.is_err(), "it was lost: {lost:?}");
    assert!(backend.lease().same_as(&lease));
    backend.close(Close::Orderly).await.unwrap();
    assert_eq!(lease.lost(), Some(LostReason::Closed));
}

/// Where a lease is short, less is left of it when a proof is asked for than the proof may take in good times.
#[tokio::test(flavor = "multi_thread")]
async fn a_silence_is_told_before_the_loss_where_a_lease_is_short() {
    let server = server().await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    (config.ttl, config.tick) = (Duration::from_secs(6), Duration::from_secs(2));
    let backend = backend(&config).await;
    let lease = backend.lease();
    // Shortly before the third proof, so that the connection is not given up for silent by the loss.
    lease.clock().sleep_until(lease.opened() + Duration::from_millis(5800)).await;
    proxy.hold(Direction::ToServer);
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    assert_eq!(soon(lease.until_lost()).await, LostReason::Expired);
    backend.close(Close::Abrupt).await.unwrap();
}

/// The client crate tells a server in one burst, on a new connection, all that it watches: in parts, of which the second
/// would be taken for an answer to nothing. So many holds are watched in another way.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_holds_survive_a_cut_that_is_shorter_than_their_lease() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let client = coordinator(&config).await;
    let acquired = (0..6000).map(|number| {
        let mutex = client.mutex(format!("held-{number}")).unwrap();
        async move { mutex.acquire().await }
    });
    let guards: Vec<_> = soon(stream::iter(acquired).buffer_unordered(64).try_collect()).await.unwrap();
    // By now each of them is watched.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lease = client.lease();
    proxy.sever();
    soon(lease.changed(LeaseState::Live)).await;
    proxy.resume();
    let then = soon(lease.changed(LeaseState::Suspended)).await;
    assert_eq!(then, LeaseState::Live, "the session did not come back");
    assert!(guards.iter().all(Hold::is_held));
    // What is not watched is told all the same that it was removed, within a TTL (NODE-GONE).
    let last = guards.iter().find(|guard| guard.key() == "held-5999").unwrap();
    let mutex = client.mutex("held-5999").unwrap();
    let sequence = mutex.queue(0, 1).await.unwrap()[0].sequence;
    let removed = std::time::Instant::now();
    assert!(mutex.force_release(sequence).await.unwrap());
    assert_eq!(soon(last.lost()).await.reason(), LostReason::Revoked);
    assert!(removed.elapsed() <= config.ttl, "told after {:?}", removed.elapsed());
    assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), 5999);
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_waits_for_locks_keep_their_places_over_a_cut() {
    waits_outlive_a_cut("mutex", 5000, |client, key| {
        let mutex = client.mutex(key).unwrap();
        async move { mutex.acquire().await }.boxed()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_waits_for_permits_keep_their_places_over_a_cut() {
    waits_outlive_a_cut("semaphore", 2500, |client, key| {
        let semaphore = client.semaphore(key, 3).unwrap();
        async move { semaphore.acquire(2).await }.boxed()
    })
    .await;
}

/// What a session could not watch again is watched from further sessions of its client, which may end as well.
async fn waits_outlive_a_cut<G: Hold + Send + 'static>(
    kind: &str,
    count: usize,
    acquire: fn(&Coordinator, &str) -> BoxFuture<'static, latchwork_core::Result<G>>,
) {
    let own = own_server().await;
    let proxy = Proxy::start(own.addr()).await.unwrap();
    let mut direct = config(own.addr());
    // Nobody looks while this test lasts: what is told is told by a watch.
    direct.ttl = Duration::from_secs(60);
    let mut proxied = direct.clone();
    proxied.hosts = vec![proxy.addr().to_string()];
    let (holder, client) = (coordinator(&direct).await, coordinator(&proxied).await);
    let stranger = stranger(own.addr()).await;
    let keys: Vec<_> = (0..count).map(|number| format!("held-{number}")).collect();
    let held = stream::iter(&keys).map(|key| acquire(&holder, key)).buffer_unordered(64);
    let held: Vec<_> = soon(held.try_collect()).await.unwrap();
    // Its owner is the session that all hangs on.
    let main = soon(client.mutex("main").unwrap().acquire()).await.unwrap();
    let queue = format!("/{}/mutex/main", direct.namespace);
    let node = stranger.list_children(&queue).await.unwrap().remove(0);
    let (_, stat) = stranger.get_data(&format!("{queue}/{node}")).await.unwrap();
    let mut waits: JoinSet<_> = keys.iter().map(|key| acquire(&client, key)).collect();
    let places = async || {
        let queues = stream::iter(&keys).map(async |key| {
            let queue = format!("/{}/{kind}/{key}", direct.namespace);
            loop {
                let mut places = stranger.list_children(&queue).await.unwrap();
                if places.len() == 2 {
                    places.sort();
                    return places;
                }
            }
        });
        soon(queues.buffered(64).collect::<Vec<_>>()).await
    };
    let before = places().await;
    // By now each of them is watched.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(sessions(&own).await > 3, "watched from the one session alone");
    let (lease, (connects, _hear)) = (client.lease(), connects(&proxy));
    proxy.sever();
    soon(lease.changed(LeaseState::Live)).await;
    proxy.resume();
    let then = soon(lease.changed(LeaseState::Suspended)).await;
    assert_eq!(then, LeaseState::Live, "the session did not come back");
    assert_eq!(places().await, before);

    let of_others = || -> Vec<_> {
        let connects = connects.lock().unwrap();
        connects
            .iter()
            .filter(|(session, _)| **session != stat.ephemeral_owner)
            .map(|(_, connect)| connect.clone())
            .collect()
    };
    soon(async {
        while of_others().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.refuse();
    for connect in of_others() {
        end_session(own.addr(), &connect).await;
    }
    proxy.resume();
    assert_eq!(places().await, before);
    main.check().expect("the end of one that watches only is not its own");
    let _ = main.release().await.unwrap();
    for released in held.chunks(64) {
        for outcome in join_all(released.iter().map(Hold::release)).await {
            let _ = outcome.unwrap();
        }
    }
    let mut granted = Vec::new();
    while let Some(hold) = soon(waits.join_next()).await {
        granted.push(hold.unwrap().unwrap());
    }
    assert!(granted.iter().all(Hold::is_held));
    client.close().await.unwrap();
    holder.close().await.unwrap();
    assert_eq!(sessions(&own).await, 1, "that of the stranger");
}

/// Of which there is room for few.
fn long_key(number: usize) -> String {
    format!("{number:0>3}{}", "/".repeat(252))
}

/// The further session is opened for all of them.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_needs_a_further_session_and_is_not_polled_keeps_no_other_from_it() {
    let mut config = config(server().await.addr());
    // Nobody looks while this test lasts.
    config.ttl = Duration::from_secs(60);
    let (proxy, [client, holder]) = one_proxied(&config).await;
    let enter = async |number: usize| {
        let queue = address(&config, Kind::Mutex, long_key(number));
        let ahead = admitted(holder.join(&join(&queue, Exclusive)).await);
        let node = waiting(client.join(&join(&queue, Exclusive)).await);
        (ahead, Box::pin(async move { node.admitted().await }))
    };
    let opened = proxy.hold_reply_to(opens_a_session);
    let mut waits = JoinSet::new();
    soon(async {
        while !opened.has_fired() {
            waits.spawn(enter(waits.len()).await.1);
        }
    })
    .await;
    let [(_, mut unpolled), (ahead, mut polled)] = [enter(998).await, enter(999).await];
    assert!((&mut unpolled).now_or_never().is_none());
    assert!((&mut polled).now_or_never().is_none());
    proxy.resume();
    ahead.leave().await.unwrap();
    soon(polled).await.unwrap();
    drop(unpolled);
    client.close(Close::Orderly).await.unwrap();
}

type Connects = Mutex<HashMap<i64, Vec<u8>>>;

/// What each session says when it comes back, while the event is kept: its id and password are in it.
fn connects(proxy: &Proxy) -> (Arc<Connects>, Event) {
    let connects = Arc::new(Connects::default());
    let heard = Arc::clone(&connects);
    let hear = proxy.request(move |chunk| {
        // Behind that: last transaction seen, timeout, session.
        if let (true, Some(session)) = (opens_a_session(chunk), chunk.get(20..28)) {
            let session = i64::from_be_bytes(session.try_into().unwrap());
            let length = 4 + usize::from(chunk[3]);
            heard.lock().unwrap().insert(session, chunk[..length].to_vec());
        }
        false
    });
    (connects, hear)
}

/// Closes a session under its id, as an operator would, on a connection of our own: the client's words, and the request to
/// close behind them. Answers when the server has carried that out.
async fn end_session(addr: &str, connect: &[u8]) {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(connect).await.unwrap();
    let mut answer = [0; 8];
    stream.read_exact(&mut answer).await.unwrap();
    let close: [[u8; 4]; 3] = [8_i32, 1, -11].map(i32::to_be_bytes);
    stream.write_all(&close.concat()).await.unwrap();
    soon(stream.read_to_end(&mut Vec::new())).await.unwrap();
}

/// How many sessions there are on a server.
async fn sessions(server: &Server) -> u64 {
    count(server, "zk_global_sessions").await
}

/// What a server counts of this.
async fn count(server: &Server, of: &str) -> u64 {
    let mut stream = TcpStream::connect(server.addr()).await.unwrap();
    stream.write_all(b"mntr").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let told = answer.lines().find_map(|line| line.strip_prefix(of));
    told.expect("mntr tells of it").trim().parse().unwrap()
}

/// A client with permits on so many semaphores that there is no room to watch them all; and another one.
async fn crowded(config: &Config, count: usize) -> (Coordinator, Vec<Permit>, Coordinator) {
    let (client, other) = (coordinator(config).await, coordinator(config).await);
    let acquired = (0..count).map(|number| {
        let semaphore = client.semaphore(format!("held-{number}"), 3).unwrap();
        async move { semaphore.acquire(2).await }
    });
    let permits = soon(stream::iter(acquired).buffer_unordered(64).try_collect()).await.unwrap();
    (client, permits, other)
}

/// What is looked at is marked when the limit has changed: whoever comes then is the head behind it, though no sum says so.
#[tokio::test(flavor = "multi_thread")]
async fn permits_that_there_is_no_room_to_watch_are_marked_when_the_limit_changes() {
    let mut config = config(server().await.addr());
    config.ttl = Duration::from_secs(4);
    let (client, permits, other) = crowded(&config, 2600).await;
    let mut operator = other.semaphore_as_stored("held-2599").unwrap();
    operator.set_limit(1).await.unwrap();
    let waits = operator.clone();
    let next = tokio::spawn(async move { waits.acquire(1).await });
    soon(async { while operator.queue(0, 9).await.unwrap().len() < 2 {} }).await;
    // A round of looks, which comes each three quarters of the TTL.
    tokio::time::sleep(config.ttl).await;
    let data = stranger(server().await.addr()).await;
    let queue = format!("/{}/semaphore/held-2599", config.namespace);
    let children = data.list_children(&queue).await.unwrap();
    let mut marked = 0;
    for child in children {
        let (text, _) = data.get_data(&format!("{queue}/{child}")).await.unwrap();
        marked += usize::from(text.ends_with(b"\0admitted"));
    }
    assert_eq!(marked, 1, "the holder, and nobody else");
    operator.set_limit(3).await.unwrap();
    let _ = soon(next).await.unwrap().unwrap().release().await.unwrap();
    drop(permits);
    client.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn room_for_watches_comes_back_with_what_is_released() {
    let mut config = config(server().await.addr());
    // Nobody looks while this test lasts.
    config.ttl = Duration::from_secs(60);
    let (client, permits, other) = crowded(&config, 4000).await;
    // By now they are watched, as far as there is room.
    tokio::time::sleep(Duration::from_millis(500)).await;
    for released in permits.chunks(64) {
        for outcome in join_all(released.iter().map(Hold::release)).await {
            let _ = outcome.unwrap();
        }
    }
    let mutex = client.mutex("watched").unwrap();
    let hold = soon(mutex.acquire()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(other.mutex("watched").unwrap().force_release(hold.token().sequence()).await.unwrap());
    let told = tokio::time::timeout(Duration::from_secs(10), hold.lost()).await.expect("nobody watches it");
    assert_eq!(told.reason(), LostReason::Revoked);
    client.close().await.unwrap();
    other.close().await.unwrap();
}

/// More than the client crate can tell a server again would cost the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_whose_watch_told_of_a_change_is_watched_again_only_where_there_is_room() {
    let own = own_server().await;
    let mut config = config(own.addr());
    // Nobody looks while this test lasts.
    config.ttl = Duration::from_secs(60);
    let (client, other) = (backend(&config).await, backend(&config).await);
    let enter = async |backend: &Arc<dyn Backend>, number: usize| {
        let queue = address(&config, Kind::Mutex, long_key(number));
        backend.join(&join(&queue, Exclusive)).await
    };
    // Most of what is for holds, and most of all that there is.
    let (holds, waits) = (0..60, 60..140);
    let mut held = Vec::new();
    for number in holds.clone() {
        held.push(admitted(enter(&client, number).await));
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut waiters = JoinSet::new();
    for number in waits {
        admitted(enter(&other, number).await);
        let node = waiting(enter(&client, number).await);
        waiters.spawn(async move { node.admitted().await });
    }
    // By now all are watched.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = count(&own, "zk_watch_count").await;
    let stranger = stranger(own.addr()).await;
    for number in holds {
        let queue = format!("/{}/mutex/{}", config.namespace, encode(&long_key(number)));
        let node = stranger.list_children(&queue).await.unwrap().remove(0);
        stranger.set_data(&format!("{queue}/{node}"), b"changed", None).await.unwrap();
    }
    // And by now again.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(count(&own, "zk_watch_count").await, before - 60);
    assert!(held.iter().all(|node| node.state().lost().is_none()));
    client.close(Close::Orderly).await.unwrap();
}

#[tokio::test]
async fn a_create_whose_reply_was_lost_is_adopted_and_makes_no_second_node() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    // Warm, so that the next create is not refused for a missing directory.
    admitted(backend.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, CREATE2));
    let request = join(&queue, Exclusive);
    let error = backend.join(&request).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unknown, "{error}");
    soon(cut.fired()).await.unwrap();
    let node = admitted(soon(backend.join(&Join { repeated: true, ..request })).await);
    let listed = backend.list(&queue, ALL).await.unwrap();
    assert_eq!(listed.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [node.state().sequence()]);
    node.leave().await.unwrap();
    assert!(backend.list(&queue, ALL).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_create_whose_reply_was_lost_is_taken_back_when_it_is_abandoned() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    admitted(backend.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, CREATE2));
    let request = join(&queue, Exclusive);
    backend.join(&request).await.unwrap_err();
    soon(cut.fired()).await.unwrap();
    soon(backend.abandon(&request)).await.unwrap();
    assert!(backend.list(&queue, ALL).await.unwrap().is_empty());
    // Harmless to repeat.
    backend.abandon(&request).await.unwrap();
}

#[tokio::test]
async fn a_read_whose_reply_was_lost_is_unavailable() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Semaphore, "a");
    for (wanted, lists) in [(LIST, true), (READ, false)] {
        let mut cut = proxy.drop_reply_to(move |chunk| holds(chunk, wanted));
        let error = match lists {
            true => backend.list(&queue, ALL).await.unwrap_err(),
            false => backend.limit(&queue).await.unwrap_err(),
        };
        assert_eq!(*error.kind(), ErrorKind::Unavailable, "{error}");
        soon(cut.fired()).await.unwrap();
    }
}

#[tokio::test]
async fn a_mutex_survives_a_cut_that_is_shorter_than_its_lease() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex("a").unwrap();
    let guard = soon(mutex.acquire()).await.unwrap();
    let lease = coordinator.lease();
    proxy.sever();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    assert!(guard.is_held(), "held until the deadline");
    proxy.resume();
    soon(async { while lease.changed(LeaseState::Suspended).await != LeaseState::Live {} }).await;
    let _ = guard.release().await.unwrap();
    coordinator.close().await.unwrap();
}

/// As where it loses its power, or a network its way.
#[tokio::test(flavor = "multi_thread")]
async fn holds_outlive_that_the_host_in_use_falls_silent_beside_another() {
    // Several, since hosts are tried in any order, the silent one too.
    const CLIENTS: usize = 6;
    let addr = server().await.addr();
    let [first, other] = [Proxy::start(addr).await.unwrap(), Proxy::start(addr).await.unwrap()];
    let mut config = config(addr);
    config.hosts = [&first, &other].map(|proxy| proxy.addr().to_string()).into();
    other.refuse();
    let proofs = AtomicUsize::new(0);
    let mut due = first
        .request(move |chunk| holds(chunk, SET_DATA) && proofs.fetch_add(1, Ordering::Relaxed) == CLIENTS);
    let held = join_all((0..CLIENTS).map(async |number| {
        let client = coordinator(&config).await;
        let hold = soon(client.mutex(number.to_string()).unwrap().acquire()).await.unwrap();
        (client, hold)
    }));
    let held = held.await;
    other.resume();
    // The second of one of them: what the deadline counts from is as old as it gets.
    soon(due.fired()).await.unwrap();
    first.hold(Direction::ToServer);
    first.hold(Direction::ToClient);
    join_all(held.iter().map(async |(client, hold)| {
        let lease = client.lease();
        soon(lease.changed(LeaseState::Live)).await;
        assert_eq!(soon(lease.changed(LeaseState::Suspended)).await, LeaseState::Live);
        hold.check().unwrap();
    }))
    .await;
    first.resume();
    for (client, _) in held {
        client.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_cut_off_is_lost_before_another_is_admitted_and_a_new_one_is_opened_later() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    config.ttl = Duration::from_secs(2);
    let mut direct = config.clone();
    direct.hosts = vec![server().await.addr().to_owned()];
    let (cut_off, other) = (coordinator(&config).await, coordinator(&direct).await);
    let guard = soon(cut_off.mutex("a").unwrap().acquire()).await.unwrap();
    let token = guard.token();
    let waits = tokio::spawn({
        let mutex = other.mutex("a").unwrap();
        async move { mutex.acquire().await }
    });
    soon(async {
        while other.mutex("a").unwrap().queue(0, 10).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.hold(Direction::ToServer);
    proxy.hold(Direction::ToClient);
    let next = tokio::select! {
        biased;
        lost = guard.lost() => {
            assert_eq!(lost.reason(), LostReason::Expired);
            soon(waits).await.unwrap().unwrap()
        }
        _ = tokio::time::sleep(common::PATIENCE) => panic!("neither was told"),
    };
    assert!(!guard.is_held());
    assert!(next.token() > token);
    let _ = next.release().await.unwrap();
    // Nobody waits behind our own old node when the server is back.
    proxy.sever();
    proxy.resume();
    let again = soon(cut_off.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(again.token() > token);
    assert_eq!(
        guard.check().unwrap_err().lost_reason(),
        Some(LostReason::Expired),
        "the old hold stays lost"
    );
    let _ = again.release().await.unwrap();
    cut_off.close().await.unwrap();
    other.close().await.unwrap();
}

/// A wait that somebody keeps in a `select!`, and has turned away from, say.
async fn a_session_ends_though_a_request_of_it_is_not_polled(end: impl AsyncFnOnce(&dyn Backend)) {
    let own = own_server().await;
    let mut config = config(own.addr());
    // The server ends the one; the other's must not run out where the machine stands still for a second.
    config.ttl = Duration::from_secs(6);
    config.request_timeout = Duration::from_millis(500);
    let (proxy, [client, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    admitted(client.join(&join(&queue, Exclusive)).await);
    let next = waiting(other.join(&join(&queue, Exclusive)).await);

    let mut answered = proxy.hold_reply_to(|chunk| holds(chunk, CREATE2));
    let elsewhere = join(&address(&config, Kind::Mutex, "b"), Exclusive);
    let mut request = client.join(&elsewhere);
    tokio::select! {
        biased;
        joined = &mut request => panic!("its answer is held back: {joined:?}"),
        fired = soon(answered.fired()) => fired.unwrap(),
    }
    proxy.resume();
    assert_eq!(sessions(&own).await, 2);
    end(&*client).await;
    soon(next.admitted()).await.unwrap();
    soon(async { while sessions(&own).await > 1 {} }).await;
    soon(request).await.unwrap_err();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_session_ends_on_the_server_though_a_request_of_it_is_not_polled() {
    a_session_ends_though_a_request_of_it_is_not_polled(async |client| {
        let lease = client.lease();
        lease.clock().jump(lease.ttl());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_ends_on_the_server_though_a_request_of_it_is_not_polled() {
    a_session_ends_though_a_request_of_it_is_not_polled(async |client| {
        let error = client.close(Close::Orderly).await.unwrap_err();
        assert_eq!(*error.kind(), ErrorKind::Unavailable, "it was not told");
    })
    .await;
}

/// The request that opens a session: length, version of the protocol.
fn opens_a_session(chunk: &[u8]) -> bool {
    matches!(chunk.first_chunk(), Some(&[0, 0, 0, 44 | 45, 0, 0, 0, 0]))
}

/// A client that has lost its session, behind a proxy that keeps back the answer to the next one's opening.
async fn about_to_open(server: &Server) -> (Proxy, Event, Config, Arc<dyn Backend>) {
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    // Nothing expires while these tests last.
    config.ttl = Duration::from_secs(60);
    let client = backend(&config).await;
    client.lease().clock().jump(config.ttl);
    let opened = proxy.hold_reply_to(opens_a_session);
    (proxy, opened, config, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_opens_a_session_and_is_not_polled_keeps_no_other_from_it() {
    let (proxy, mut opened, config, client) = about_to_open(server().await).await;
    let joins = ["a", "b"].map(|key| join(&address(&config, Kind::Mutex, key), Exclusive));
    let mut first = client.join(&joins[0]);
    tokio::select! {
        biased;
        joined = &mut first => panic!("there is no session: {joined:?}"),
        fired = soon(opened.fired()) => fired.unwrap(),
    }
    proxy.resume();
    admitted(soon(client.join(&joins[1])).await);
    admitted(soon(first).await);
    client.close(Close::Orderly).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_being_opened_is_given_back_when_its_client_ends_meanwhile() {
    let own = own_server().await;
    for closed in [true, false] {
        let (proxy, mut opened, config, client) = about_to_open(&own).await;
        let elsewhere = join(&address(&config, Kind::Mutex, "a"), Exclusive);
        tokio::select! {
            joined = client.join(&elsewhere) => panic!("there is no session: {joined:?}"),
            fired = soon(opened.fired()) => fired.unwrap(),
        }
        if closed {
            soon(client.close(Close::Orderly)).await.unwrap();
            assert_eq!(*client.join(&elsewhere).await.unwrap_err().kind(), ErrorKind::Closed);
        }
        drop(client);
        proxy.resume();
        soon(async { while sessions(&own).await > 0 {} }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn joins_that_give_up_before_a_session_is_open_get_it_between_them() {
    let own = own_server().await;
    let proxy = Proxy::start(own.addr()).await.unwrap();
    let config = through(&proxy).await;
    let client = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    // Warm, so that a join is one trip.
    admitted(client.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
    let trip = Duration::from_millis(200);
    proxy.delay(Direction::ToServer, trip);
    let lease = client.lease();
    lease.clock().jump(lease.ttl());
    let joined = soon(async {
        loop {
            let request = join(&queue, Exclusive);
            // A session takes four trips, and the end of the old one another.
            if let Ok(joined) = tokio::time::timeout(trip * 5 / 2, client.join(&request)).await {
                break joined;
            }
        }
    });
    joined.await.unwrap();
    assert_eq!(sessions(&own).await, 1, "none was left half open");
    client.close(Close::Orderly).await.unwrap();
}

/// Whoever asks for the new session may do so on a runtime that is gone soon after.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_opened_anew_does_not_end_with_the_runtime_of_whoever_asked_for_it() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    config.ttl = Duration::from_secs(6);
    let client = coordinator(&config).await;
    let mutex = client.mutex("a").unwrap();
    let hold = soon(mutex.acquire()).await.unwrap();
    let lease = client.lease();
    lease.clock().jump(lease.ttl());
    soon(hold.lost()).await;
    let asked = move || Builder::new_current_thread().enable_all().build().unwrap().block_on(mutex.acquire());
    let hold = soon(tokio::task::spawn_blocking(asked)).await.unwrap().unwrap();
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 3 / 2).await;
    hold.check().expect("the session is served and proven");
    let _ = hold.release().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_server_suspends_and_a_restart_within_the_lease_loses_nothing() {
    let server = own_server().await;
    let mut config = config(server.addr());
    config.ttl = Duration::from_secs(30);
    let coordinator = coordinator(&config).await;
    let guard = soon(coordinator.mutex("a").unwrap().acquire()).await.unwrap();
    server.restart().await.unwrap();
    let lease = coordinator.lease();
    let member = stranger(server.addr()).await;
    soon(async {
        while lease.state() != LeaseState::Live {
            lease.changed(lease.state()).await;
        }
    })
    .await;
    assert!(guard.is_held());
    let names = member.list_children(&format!("/{}/mutex/a", config.namespace)).await.unwrap();
    assert_eq!(names.len(), 1);
    let _ = guard.release().await.unwrap();
    coordinator.close().await.unwrap();
}

#[tokio::test]
async fn a_joins_request_is_unavailable_while_it_is_cut_off_and_closed_after_the_end() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    config.request_timeout = Duration::from_millis(300);
    let backend = try_backend(&config).await.unwrap();
    let queue = address(&config, Kind::Mutex, "a");
    proxy.refuse();
    proxy.cut();
    let lease = backend.lease();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    let request = join(&queue, Exclusive);
    assert_eq!(*backend.join(&request).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let error = backend.close(Close::Orderly).await.unwrap_err();
    assert_eq!(*error.kind(), ErrorKind::Unavailable, "the server could not be told");
    assert_eq!(*backend.join(&request).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(backend.close(Close::Orderly).await.unwrap_err().kind(), error.kind());
}

#[tokio::test]
async fn a_clients_node_that_was_deleted_is_made_again_by_its_next_proof() {
    made_again_by_the_next_proof(false).await;
}

#[tokio::test]
async fn a_clients_node_whose_directory_was_deleted_too_is_made_again_by_its_next_proof() {
    made_again_by_the_next_proof(true).await;
}

async fn made_again_by_the_next_proof(with_its_directory: bool) {
    let addr = server().await.addr();
    let mut config = config(addr);
    config.ttl = Duration::from_secs(2);
    let backend = backend(&config).await;
    let stranger = stranger(addr).await;
    let clients = format!("/{}/client", config.namespace);
    let names = stranger.list_children(&clients).await.unwrap();
    let mut deletion = stranger.new_multi_writer();
    deletion.add_delete(&format!("{clients}/{}", names[0]), None).unwrap();
    if with_its_directory {
        deletion.add_delete(&clients, None).unwrap();
    }
    deletion.commit().await.unwrap();
    soon(async {
        while stranger.list_children(&clients).await.ok().as_ref() != Some(&names) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(tokio::time::timeout(Duration::from_secs(3), backend.lease().until_lost()).await.is_err());
    let queue = address(&config, Kind::Mutex, "a");
    assert!(matches!(backend.join(&join(&queue, Exclusive)).await, Ok(Joined::Admitted(_))));
}

/// The server ends the session before our clock does: another client closes it under its id, as an operator would.
#[tokio::test]
async fn a_session_that_was_ended_on_the_server_is_lost_at_once_and_the_next_join_has_a_new_one() {
    let addr = server().await.addr();
    let proxy = Proxy::start(addr).await.unwrap();
    let config = through(&proxy).await;
    let coordinator = coordinator(&config).await;
    let guard = soon(coordinator.mutex("a").unwrap().acquire()).await.unwrap();
    let lease = coordinator.lease();
    let (connects, _hear) = connects(&proxy);
    proxy.sever();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    soon(async { while lease.changed(LeaseState::Suspended).await != LeaseState::Live {} }).await;
    let connect = connects.lock().unwrap().values().next().cloned().unwrap();

    // The client is kept out meanwhile: it would take its session back before.
    proxy.refuse();
    end_session(addr, &connect).await;
    proxy.resume();

    let reason = soon(guard.lost()).await.reason();
    assert!(matches!(reason, LostReason::Expired | LostReason::Revoked), "{reason}");
    soon(lease.until_lost()).await;
    assert!(lease.clock().now() < lease.deadline(), "told by the server, not by the clock");
    let again = soon(coordinator.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(again.token() > guard.token());
    let _ = again.release().await.unwrap();
    coordinator.close().await.unwrap();
}
