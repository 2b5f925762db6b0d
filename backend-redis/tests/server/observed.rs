use std::time::{Duration, Instant};

use crate::common::{
    ALL, LONG, RIGHTS, SHORT, admitted, ask, client, connect, operated, permits, queue, served, soon, told,
    until, waiting,
};
use futures_util::FutureExt;
use latchwork_conformance::errors::refuses;
use latchwork_core::backend::{Backend, Close, ExpectedLimit, KeysWith};
use latchwork_core::{Claim, ErrorKind, Kind, Page, QueuePrefix};

/// The watch reports the end of a dead node within this time after the TTL.
const BOUND: Duration = Duration::from_secs(4);

async fn keys(backend: &dyn Backend, kind: Kind, prefix: &str) -> Vec<String> {
    let of = QueuePrefix::new("latchwork", kind, prefix).unwrap();
    let Page { items, next, .. } = backend.list_keys(KeysWith::Nodes, &of, None, 10_000).await.unwrap();
    assert_eq!(next, None);
    let mut keys: Vec<_> = items.iter().map(|key| key.address.name().to_owned()).collect();
    keys.sort_unstable();
    keys
}

#[tokio::test]
async fn watch_reports_expiry_of_a_dead_clients_node_once() {
    let (server, _operator, watcher) = served(LONG).await;
    // One node is folded, another one unfolds the queue.
    for beside in [false, true] {
        let dies = client(&server, SHORT).await;
        let queue = queue(Kind::Group, if beside { "beside" } else { "alone" });
        let _beside = match beside {
            true => Some(admitted(&watcher, &ask(&queue, Claim::Shared)).await),
            false => None,
        };
        let mut watch = watcher.watch_queue(&queue);
        told(&mut watch).await;
        assert!(watch.changed().now_or_never().is_none());
        let _node = admitted(&dies, &ask(&queue, Claim::Shared)).await;
        told(&mut watch).await;
        let quiet = tokio::time::timeout(2 * dies.lease().ttl(), watch.changed()).await;
        assert!(quiet.is_err(), "the watch reported a change, and nothing changed: {quiet:?}");
        dies.close(Close::Abrupt).await.unwrap();
        let died = Instant::now();
        soon(watch.changed()).await.unwrap();
        assert!(died.elapsed() < dies.lease().ttl() + BOUND, "{:?}", died.elapsed());
        assert_eq!(watcher.list(&queue, ALL).await.unwrap().len(), usize::from(beside));
        let quiet = tokio::time::timeout(Duration::from_secs(1), watch.changed()).await;
        assert!(quiet.is_err(), "the watch reported the change twice: {quiet:?}");
    }
}

#[tokio::test]
async fn a_watch_of_a_node_that_lives_asks_seldom() {
    let (server, mut operator, watcher) = served(LONG).await;
    let holder = client(&server, SHORT).await;
    let queue = queue(Kind::Election, "a");
    let _node = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let mut watch = watcher.watch_queue(&queue);
    told(&mut watch).await;
    let before = operator.calls("evalsha").await;
    assert!(tokio::time::timeout(4 * holder.lease().ttl(), watch.changed()).await.is_err());
    // A renewal in each third of the TTL, and at most one look in two thirds.
    let requests = operator.calls("evalsha").await - before;
    assert!((13..=12 + 6 + 4).contains(&requests), "{requests}");
}

#[tokio::test]
async fn queues_that_are_not_observed_publish_nothing() {
    let (_server, mut operator, client) = served(LONG).await;
    for (kind, claim, news) in [
        (Kind::Mutex, Claim::Exclusive, 0),
        (Kind::RwLock, Claim::Shared, 0),
        (Kind::Barrier, Claim::Shared, 0),
        (Kind::Election, Claim::Exclusive, 3),
        (Kind::Clients, Claim::Shared, 3),
    ] {
        let before = operator.calls("publish").await;
        let node = admitted(&client, &ask(&queue(kind, "a"), claim)).await;
        node.write_data(&b"data".as_slice().into()).await.unwrap();
        node.leave().await.unwrap();
        assert_eq!(operator.calls("publish").await - before, news, "{kind:?}");
    }
}

#[tokio::test]
async fn queues_are_listed_while_they_have_a_node_that_lives() {
    let (server, mut operator, lists) = served(LONG).await;
    let dies = client(&server, SHORT).await;
    for (kind, key) in [(Kind::Mutex, "folded"), (Kind::Mutex, "unfolded"), (Kind::Semaphore, "permits")] {
        let queue = queue(kind, key);
        match kind {
            Kind::Semaphore => {
                lists.set_limit(&queue, ExpectedLimit::Any, 1).await.unwrap();
                admitted(&dies, &permits(&queue, 1)).await;
            }
            _ => drop(admitted(&dies, &ask(&queue, Claim::Exclusive)).await),
        }
        if key == "unfolded" {
            waiting(&dies, &ask(&queue, Claim::Exclusive)).await;
        }
    }
    admitted(&lists, &ask(&queue(Kind::Mutex, "stays"), Claim::Exclusive)).await;
    // Of other kinds and programs, and a queue with only a foreign entry.
    operator.tell("SET latchwork:mutex:{other}:one 17").await;
    operator.tell("SET latchwork:mutex:{other}:foreign x").await;
    operator.tell("RPUSH latchwork:mutex:{list}:one x").await;
    operator.tell("ZADD latchwork:mutex:{planted}:seq 1 x").await;
    assert_eq!(keys(&*lists, Kind::Mutex, "").await, ["folded", "stays", "unfolded"]);
    assert_eq!(keys(&*lists, Kind::Mutex, "un").await, ["unfolded"]);
    assert_eq!(keys(&*lists, Kind::Semaphore, "").await, ["permits"]);
    dies.close(Close::Abrupt).await.unwrap();
    until(async || keys(&*lists, Kind::Mutex, "").await == ["stays"]).await;
    until(async || keys(&*lists, Kind::Semaphore, "").await.is_empty()).await;
    assert!(operator.say::<bool>("EXISTS latchwork:mutex:{unfolded}:seq").await);
}

#[tokio::test]
async fn text_that_no_page_gave_is_refused_by_name() {
    let (_server, _operator, client) = served(LONG).await;
    let of = QueuePrefix::new("latchwork", Kind::Mutex, "").unwrap();
    for after in ["", "0", "-1", "+1", "01", "a", "18446744073709551616"] {
        refuses(client.list_keys(KeysWith::Nodes, &of, Some(after), 10).await, "after");
    }
    assert_eq!(client.list_keys(KeysWith::Nodes, &of, Some("1"), 10).await.unwrap(), Page::default());
}

#[tokio::test]
async fn a_client_that_may_not_scan_holds_locks_and_lists_no_queues() {
    let (server, mut operator) = operated().await;
    operator.allow("enough", RIGHTS).await;
    operator.allow("less", &format!("{RIGHTS} -scan")).await;
    for (user, scan) in [("enough", true), ("less", false)] {
        let client = connect(&format!("redis://{user}:word@{}?ttl={LONG}", server.addr())).await;
        let queue = queue(Kind::Group, user);
        let mut watch = client.watch_queue(&queue);
        told(&mut watch).await;
        let node = admitted(&client, &ask(&queue, Claim::Shared)).await;
        told(&mut watch).await;
        node.write_data(&b"data".as_slice().into()).await.unwrap();
        told(&mut watch).await;
        let of = QueuePrefix::new("latchwork", Kind::Group, user).unwrap();
        match client.list_keys(KeysWith::Nodes, &of, None, 10).await {
            Ok(page) => assert!(scan && page.items.len() <= 1, "{page:?}"),
            Err(error) => assert!(!scan && error.kind() == ErrorKind::Forbidden, "{error}"),
        }
        node.leave().await.unwrap();
    }
}
