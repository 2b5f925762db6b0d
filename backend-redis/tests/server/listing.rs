use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::backend::{Close, Join};
use latchwork_core::{Claim, Kind};

use crate::common::{
    ALL, LONG, Operator, SHORT, admitted, ask, client, connect, own, queue, served, waiting,
};

#[tokio::test]
async fn foreign_text_in_a_queue_key_is_ignored() {
    let (_server, mut operator, client) = served("10s").await;
    for (key, text) in [("a", "text"), ("b", "nan"), ("c", "1\n2"), ("d", "")] {
        let one = format!("latchwork:mutex:{{{key}}}:one");
        operator.run(redis::cmd("SET").arg(one).arg(text)).await;
        let queue = queue(Kind::Mutex, key);
        assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0);
        let held = admitted(&client, &ask(&queue, Claim::Exclusive)).await;
        assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 1);
        held.leave().await.unwrap();
    }
}

#[tokio::test]
async fn a_label_may_be_anything_and_a_listing_changes_nothing() {
    let (server, mut operator, other) = served("10s").await;
    let client = client(&server, "10s").await;
    let queue = queue(Kind::RwLock, "a");
    let long = "long ".repeat(1000);
    for label in ["", " ", "a b\nc", "nul \0 and \u{1F512}", &long] {
        // The label in a listing, safe for a terminal. After a NUL come data.
        let (seen, data) = label.split_once('\0').unwrap_or((label, ""));
        let escaped = seen.replace('\n', "\\u{a}");
        let is_shown = |shown: &str| match shown.strip_suffix('…') {
            Some(start) => label == long && !start.is_empty() && long.starts_with(start),
            None => shown == escaped,
        };
        let join = Join { label: label.into(), ..ask(&queue, Claim::Shared) };
        let held = admitted(&client, &join).await;
        let text: Vec<u8> = operator.say("GET latchwork:rwlock:{a}:one").await;
        let entries = client.list(&queue, ALL).await.unwrap();
        assert!(is_shown(&entries[0].label) && *entries[0].data == *data.as_bytes(), "{label}");
        assert_eq!(operator.say::<Vec<u8>>("GET latchwork:rwlock:{a}:one").await, text);
        let second = admitted(&other, &ask(&queue, Claim::Shared)).await;
        assert!(is_shown(&client.list(&queue, ALL).await.unwrap()[0].label), "{label}");
        held.leave().await.unwrap();
        second.leave().await.unwrap();
    }
}

#[tokio::test]
async fn listing_an_unused_or_free_queue_writes_nothing() {
    let (_server, mut operator, client) = served("10s").await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        assert_eq!(client.list(&queue(kind, "unused"), ALL).await.unwrap().len(), 0);
    }
    assert_eq!(operator.keys("*unused*").await, [""; 0]);
    let queue = queue(Kind::Mutex, "free");
    admitted(&client, &ask(&queue, Claim::Exclusive)).await.leave().await.unwrap();
    operator.tell("PEXPIRE latchwork:mutex:{free}:one 60000").await;
    assert_eq!(client.list(&queue, ALL).await.unwrap().len(), 0);
    let lives: i64 = operator.say("PTTL latchwork:mutex:{free}:one").await;
    assert!((1..=60_000).contains(&lives), "written again: {lives}");
}

/// The listings in flight are longer than the replies that the server keeps for a client with subscriptions:
/// it closes the connection of a slow reader.
#[tokio::test]
async fn large_listings_at_once_do_not_cost_the_connection() {
    const MEMBERS: usize = 500;
    const TASKS: usize = 32;
    let server = own(&["--client-output-buffer-limit", "pubsub 6mb 0 0"]).await;
    let mut operator = Operator::of(&server).await;
    let client = connect(&format!("{}?ttl={LONG}&request_timeout=1m", server.url())).await;
    let queue = queue(Kind::Group, "a");
    let data: Arc<[u8]> = vec![b'x'; 4096].into();
    let join = || Join { data: Arc::clone(&data), ..ask(&queue, Claim::Shared) };
    let joins: Vec<_> = (0..MEMBERS).map(|_| join()).collect();
    let joined = join_all(joins.iter().map(|join| client.join(join))).await;
    assert!(joined.iter().all(Result::is_ok));
    let connections = operator.counted("INFO stats", "total_connections_received:").await;
    let listed = join_all((0..TASKS).map(|_| client.list(&queue, ALL))).await;
    for entries in listed {
        let entries = entries.unwrap();
        assert_eq!(entries.len(), MEMBERS);
        assert!(entries.iter().all(|entry| *entry.data == *data));
    }
    let after = operator.counted("INFO stats", "total_connections_received:").await;
    assert_eq!(connections, after, "the client has connected again");
    client.close(Close::Abrupt).await.unwrap();
}

#[tokio::test]
async fn listing_continues_after_many_expired_nodes() {
    let (server, _operator, mortal) = served(SHORT).await;
    let living = client(&server, LONG).await;
    let queue = queue(Kind::Mutex, "a");
    let mut crowd = Vec::new();
    for _ in 0..15 {
        let joins: Vec<_> = (0..100).map(|_| ask(&queue, Claim::Exclusive)).collect();
        crowd.extend(join_all(joins.iter().map(|join| mortal.join(join))).await);
    }
    assert_eq!(crowd.iter().filter(|joined| joined.is_ok()).count(), 1500);
    let last = waiting(&living, &ask(&queue, Claim::Exclusive)).await;
    let clock = mortal.lease().clock().clone();
    let gone = mortal.lease().ttl() + Duration::from_secs(2);
    mortal.close(Close::Abrupt).await.unwrap();
    clock.sleep_until(clock.now() + gone).await;
    let listed = living.list(&queue, ALL).await.unwrap();
    let sequences: Vec<_> = listed.iter().map(|entry| entry.sequence).collect();
    assert_eq!(sequences, [last.state().sequence()]);
}
