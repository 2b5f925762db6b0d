use std::mem::swap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{
    Running, acquiring, ask, client, config, contains, etcdctl, join, keys, lease_of, metric, proxied,
    renewed, served, server, soon, until_keys,
};
use latchwork_conformance::actions::in_turn;
use latchwork_conformance::errors::fails;
use latchwork_core::backend::{Join, Joined, Patience};
use latchwork_core::{Claim, Connector, Ended, ErrorKind, Key, Kind, LostReason, connect};
use tokio::sync::mpsc;

/// A separate watch costs a start and a stop. After a very long hold, so does the watch of the queue.
const LONG_HOLD: Duration = Duration::from_millis(200);
const MESSAGES_OF_A_LONG_HOLD: u64 = 4;

/// The messages that a server got for hand-offs between two clients, and how many of them long holds explain.
async fn watch_messages(connector: Arc<dyn Connector>, hand_offs: u32) -> (u64, u64) {
    const MESSAGES: &str = "grpc_server_msg_received_total{grpc_method=\"Watch\"";
    let server = server().await;
    let config = config(&server, "ttl=5m");
    let mut mutexes = Vec::new();
    for _ in 0..2 {
        let client = connect(&[Arc::clone(&connector)], &config).await.unwrap();
        mutexes.push(client.mutex("contended").unwrap());
    }
    let [mut mutex, mut other] = <[_; 2]>::try_from(mutexes).unwrap();
    // The entry of each client in the registry is a long hold.
    let (mut long, mut admitted_after) = (2, Instant::now());
    let mut hold = mutex.acquire().await.unwrap();
    for _ in 0..hand_offs {
        let waiting = acquiring(&other);
        soon(async { while mutex.queue().first(3).await.unwrap().len() < 2 {} }).await;
        let releasing = Instant::now();
        hold.release().await.unwrap();
        long += u64::from(admitted_after.elapsed() >= LONG_HOLD);
        admitted_after = releasing;
        let next = soon(waiting).await.unwrap().unwrap();
        assert!(next.token() > hold.token());
        hold = next;
        swap(&mut mutex, &mut other);
    }
    (metric(&server, MESSAGES).await, long * MESSAGES_OF_A_LONG_HOLD)
}

/// The server serves a new watch at its next tick, and an old watch at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_between_two_contenders_start_no_watch() {
    let (messages, of_long_holds) = watch_messages(latchwork_etcd::connector(), 40).await;
    assert!(messages <= of_long_holds, "{messages} messages, {of_long_holds} of them for long holds");
}

/// The control: without the fast path, each wait starts a watch of two keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hand_offs_without_the_fast_path_start_watches() {
    let connector = latchwork_etcd::connector_without_fast_path();
    let (messages, _) = watch_messages(connector, 10).await;
    assert!(messages >= 20, "{messages} messages");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_queue_is_served_in_order() {
    let server = server().await;
    let clients = in_turn((0..40).map(async |_| client(&server, "").await)).await;
    let (sender, mut receiver) = mpsc::unbounded_channel();
    for client in &clients {
        let (mutex, sender) = (client.mutex("contended").unwrap(), sender.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                let hold = mutex.acquire().await.unwrap();
                sender.send((hold.token(), Instant::now())).unwrap();
                hold.release().await.unwrap();
            }
        });
    }
    drop(sender);
    let mut holds = Vec::new();
    while let Some(hold) = soon(receiver.recv()).await {
        holds.push(hold);
    }
    assert_eq!(holds.len(), 10 * clients.len());
    holds.sort_by_key(|hold| hold.0);
    assert!(holds.is_sorted_by(|one, next| one.1 < next.1), "two held at once");
}

/// etcd's index keeps deleted keys until it compacts, and every join ranges over them.
#[tokio::test]
async fn a_lock_that_is_taken_again_and_again_makes_no_new_keys() {
    let (server, client) = served("").await;
    let mutex = client.mutex("a").unwrap();
    let mut seen = Vec::new();
    for round in 0..20 {
        let hold = mutex.acquire().await.unwrap();
        let held = until_keys(&server, "latchwork/mutex/a/", 1).await;
        if round > 0 {
            assert!(mutex.try_acquire().await.unwrap().is_none());
        }
        hold.release().await.unwrap();
        seen.extend(held);
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() <= 2, "more than one extra name, for a refused try: {seen:?}");
    client.close().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}

#[tokio::test]
async fn etcdctl_lock_waits_for_us_and_we_for_it() {
    let (server, client) = served("").await;
    let mutex = client.mutex(Key::exact("jobs/nightly")).unwrap();
    let hold = mutex.acquire().await.unwrap();

    let mut other = Running::start(&server, &["lock", "jobs/nightly"]);
    let waiting = until_keys(&server, "jobs/nightly/", 2).await;
    other.is_silent().await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    assert_eq!(keys(&server, "jobs/nightly/").await, waiting, "a refused try leaves nothing");

    hold.release().await.unwrap();
    let taken = other.line().await;
    assert!(waiting.contains(&taken), "etcdctl names its key: {taken}");

    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waiting = acquiring(&mutex);
    until_keys(&server, "jobs/nightly/", 2).await;
    assert!(!waiting.is_finished());
    other.interrupt().await;
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > hold.token() && next.is_held());
    client.close().await.unwrap();
    assert_eq!(keys(&server, "jobs/").await, [""; 0]);
}

#[tokio::test]
async fn compaction_and_restart_lose_no_waiter_and_no_holder() {
    let (server, a) = served("ttl=5m").await;
    let b = client(&server, "ttl=5m").await;
    let hold = a.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&b.mutex("a").unwrap());
    until_keys(&server, "latchwork/mutex/a/", 2).await;
    for n in 0..50 {
        etcdctl(&server, &["put", "noise", &n.to_string()]).await;
    }
    let revision = hold.token().sequence() + 40;
    etcdctl(&server, &["compact", &revision.to_string()]).await;
    // The streams open again from compacted revisions.
    server.kill().await.unwrap();
    server.launch().await.unwrap();
    assert!(hold.is_held() && !waiting.is_finished());
    hold.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > hold.token());
    let key = until_keys(&server, "latchwork/mutex/a/", 1).await.remove(0);
    etcdctl(&server, &["del", &key]).await;
    assert_eq!(soon(next.lost()).await, Ended::Lost(LostReason::Revoked));
}

#[tokio::test]
async fn a_crash_of_the_server_is_survived_by_holder_and_waiter() {
    let (server, a) = served("ttl=10s").await;
    let b = client(&server, "ttl=10s").await;
    let hold = a.mutex("a").unwrap().acquire().await.unwrap();
    let waiting = acquiring(&b.mutex("a").unwrap());
    until_keys(&server, "latchwork/mutex/a/", 2).await;
    server.kill().await.unwrap();
    assert!(hold.is_held(), "held until the deadline");
    server.launch().await.unwrap();
    assert!(hold.is_held() && !waiting.is_finished());
    soon(hold.release()).await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > hold.token() && next.is_held());
    renewed(&b.lease()).await;
    assert!(next.is_held());
}

#[tokio::test]
async fn a_frozen_server_suspends_then_loses_and_the_next_acquire_recovers() {
    let (server, client) = served("ttl=2s&request_timeout=3s").await;
    let (mutex, lease) = (client.mutex("a").unwrap(), client.lease());
    let hold = mutex.acquire().await.unwrap();
    server.pause().await.unwrap();
    // By the client's clock, even if this task is notified late.
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    assert!(!hold.is_held(), "the server may have ended the lease before");
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Expired));
    server.resume().await.unwrap();
    let next = soon(mutex.acquire()).await.unwrap();
    assert!(next.token() > hold.token());
}

#[tokio::test]
async fn a_late_join_of_an_abandoned_attempt_finds_its_tombstone() {
    let (server, client) = served("").await;
    let backend = client.backend();
    for patience in [Patience::Wait, Patience::Try] {
        let join = ask(Kind::Mutex, Claim::Exclusive, None, patience);
        backend.abandon(&join).await.unwrap();
        let late = backend.join(&join).await;
        assert!(late.is_err(), "{late:?}");
        backend.abandon(&join).await.unwrap();
    }
    assert_eq!(keys(&server, "latchwork/mutex/").await, [""; 0]);
    assert_eq!(keys(&server, "latchwork/client/").await.len(), 2, "one tombstone for each attempt");
    client.close().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0], "the tombstones went with the lease");
}

/// The node was deleted by hand, and a late request of the attempt may create it again.
#[tokio::test]
async fn the_leave_of_a_repeated_join_deletes_the_node_of_a_late_request_too() {
    let (server, client) = served("").await;
    let repeated = Join { repeated: true, ..ask(Kind::Mutex, Claim::Exclusive, None, Patience::Wait) };
    let Ok(Joined::Admitted(node)) = client.backend().join(&repeated).await else { panic!("not admitted") };
    let named = keys(&server, "latchwork/mutex/").await;
    let lease = format!("--lease={}", lease_of(&server, "a").await);
    etcdctl(&server, &["del", &named[0]]).await;
    soon(node.state().until_lost()).await;
    etcdctl(&server, &["put", &named[0], "", &lease]).await;
    node.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/mutex/").await, [""; 0], "a ghost");
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_second_leave_of_a_node_spares_the_next_of_its_name() {
    let (server, client) = served("").await;
    let (_, first) = join(&client, Kind::Mutex, Claim::Exclusive, None).await;
    let named = keys(&server, "latchwork/mutex/").await;
    first.leave().await.unwrap();
    let (_, next) = join(&client, Kind::Mutex, Claim::Exclusive, None).await;
    assert_eq!(keys(&server, "latchwork/mutex/").await, named, "the name is used again");
    first.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/mutex/").await, named);
    next.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}

#[tokio::test]
async fn a_waiter_that_was_left_is_not_admitted() {
    let (_server, client) = served("").await;
    let (_, first) = join(&client, Kind::Mutex, Claim::Exclusive, None).await;
    let (_, second) = join(&client, Kind::Mutex, Claim::Exclusive, None).await;
    second.leave().await.unwrap();
    let ended = soon(second.admitted()).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost(LostReason::Revoked));
    first.leave().await.unwrap();
    client.close().await.unwrap();
}

/// A leave without an answer may arrive at any time, so no other node may have the name.
#[tokio::test]
async fn a_leave_that_lands_late_spares_a_node_that_joined_since() {
    let server = server().await;
    let (proxy, client) = proxied(&server, "ttl=60s").await;
    let (_, first) = join(&client, Kind::Mutex, Claim::Exclusive, None).await;
    let named = keys(&server, "latchwork/mutex/").await;
    let of_the_node = named[0].clone();
    let mut parked = proxy.park_request(move |chunk| contains(chunk, &of_the_node));
    fails(first.leave().await, ErrorKind::OutcomeUnknown, "the request is parked");
    parked.caught().await.unwrap();
    first.leave().await.unwrap();
    let (_, next) = join(&client, Kind::Mutex, Claim::Exclusive, None).await;
    let since = keys(&server, "latchwork/mutex/").await;
    assert_ne!(since, named);
    parked.deliver().await.unwrap();
    assert_eq!(keys(&server, "latchwork/mutex/").await, since);
    next.leave().await.unwrap();
    assert_eq!(keys(&server, "latchwork/").await, [""; 0]);
}
