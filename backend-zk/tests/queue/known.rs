use std::pin::pin;
use std::sync::Arc;

use super::{all_hold_and_release, line_up};
use crate::common::request::{LIST, READ};
use crate::common::{ALL, address, admitted, hear, holds, join, proxied, soon, still_waits, waiting};
use latchwork_conformance::actions::leave_all;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, Node};
use latchwork_core::{Address, Kind};

async fn learns_its_predecessor(
    proxy: &Proxy,
    queue: &Address,
    one: &Arc<dyn Backend>,
    other: &Arc<dyn Backend>,
    ahead: &mut Vec<Arc<dyn Node>>,
) {
    for round in 0..2 {
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        let node = waiting(one.join(&join(queue, Exclusive)).await);
        assert!(listed.has_fired(), "round {round}");
        assert!(still_waits(one, queue, node.admitted()).await);
        node.leave().await.unwrap();
        ahead.pop().unwrap().leave().await.unwrap();
        ahead.push(waiting(other.join(&join(queue, Exclusive)).await));
    }
}

#[tokio::test]
async fn waiter_with_a_known_predecessor_joins_without_listing() {
    let (config, proxy, [one, other]) = proxied().await;
    for (key, is_there) in [("a", true), ("b", false)] {
        let queue = address(&config, Kind::Mutex, key);
        let mut ahead = line_up(&other, &queue, 4).await;
        learns_its_predecessor(&proxy, &queue, &one, &other, &mut ahead).await;
        if !is_there {
            leave_all(ahead).await;
            for expected in [true, false] {
                let read = proxy.request(|chunk| holds(chunk, READ));
                admitted(one.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
                assert_eq!(read.has_fired(), expected, "whether the client reads its former predecessor");
            }
            continue;
        }
        let listed = proxy.request(|chunk| holds(chunk, LIST));
        let node = waiting(one.join(&join(&queue, Exclusive)).await);
        assert!(!listed.has_fired());
        let mut admission = pin!(node.admitted());
        assert!(still_waits(&one, &queue, &mut admission).await);
        // The predecessor was not the only node ahead.
        ahead.pop().unwrap().leave().await.unwrap();
        assert!(still_waits(&one, &queue, &mut admission).await);
        let last = ahead.pop().unwrap();
        leave_all(ahead).await;
        assert!(still_waits(&one, &queue, &mut admission).await);
        last.leave().await.unwrap();
        soon(admission).await.unwrap();
        node.leave().await.unwrap();
        assert!(other.list(&queue, ALL).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn release_of_a_known_predecessor_admits_without_listing() {
    let (config, proxy, [one, other]) = proxied().await;
    let queue = address(&config, Kind::Mutex, "a");
    let mut ahead = line_up(&other, &queue, 4).await;
    learns_its_predecessor(&proxy, &queue, &one, &other, &mut ahead).await;
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    let node = waiting(one.join(&join(&queue, Exclusive)).await);
    assert!(!listed.has_fired());
    let mut admission = pin!(node.admitted());
    assert!(still_waits(&one, &queue, &mut admission).await);
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    all_hold_and_release(ahead).await;
    hear(&one, &config).await;
    soon(admission).await.unwrap();
    assert!(!listed.has_fired());
    node.leave().await.unwrap();
    assert!(other.list(&queue, ALL).await.unwrap().is_empty());
}
