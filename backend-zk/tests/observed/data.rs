use std::time::Duration;

use super::{data, entries, texts, with_data};
use crate::common::request::{CREATE2, MULTI};
use crate::common::{
    address, admitted, backend, holds, is_marked, join, place, proxied, proxied_with, server, soon,
    still_waits, stored, stranger, suspended, waiting,
};
use latchwork_conformance::errors::fails;
use latchwork_core::Claim::{Exclusive, Permits, Shared};
use latchwork_core::backend::Join;
use latchwork_core::{Config, ErrorKind, Key, Kind};
use zookeeper_client::Client;

async fn bytes(stranger: &Client, directory: &str) -> String {
    let [bytes] = <[_; 1]>::try_from(stored(stranger, directory).await).expect("one node");
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn a_node_holds_label_and_data_and_without_data_the_label_alone() {
    let (config, backend, stranger) = place().await;
    let queue = address(&config, Kind::Election, "a");
    let directory = format!("/{}/election/a", config.namespace);
    let node = admitted(backend.join(&join(&queue, Exclusive)).await);
    assert_eq!(bytes(&stranger, &directory).await, "tester");
    node.write_data(&b"some \0data"[..].into()).await.unwrap();
    assert_eq!(bytes(&stranger, &directory).await, "tester\0data 10 some \0data");
    node.write_data(&b""[..].into()).await.unwrap();
    assert_eq!(bytes(&stranger, &directory).await, "tester");
    node.leave().await.unwrap();
    admitted(backend.join(&with_data(&queue, Exclusive, b"born")).await);
    assert_eq!(bytes(&stranger, &directory).await, "tester\0data 4 born");
    assert_eq!(data(&backend, &queue).await, texts(&["born"]));
    assert_eq!(entries(&backend, &queue).await[0].label, "tester");
}

#[tokio::test]
async fn a_node_that_was_adopted_has_its_data_and_takes_others() {
    let (config, proxy, [one, other]) = proxied().await;
    let queue = address(&config, Kind::Group, "a");
    admitted(one.join(&join(&queue, Shared)).await).leave().await.unwrap();
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, CREATE2));
    let request = with_data(&queue, Shared, b"first");
    fails(one.join(&request).await, ErrorKind::OutcomeUnknown, "the reply is lost");
    soon(cut.fired()).await.unwrap();
    let node = admitted(soon(one.join(&Join { repeated: true, ..request })).await);
    assert_eq!(data(&other, &queue).await, texts(&["first"]));
    node.write_data(&b"second"[..].into()).await.unwrap();
    assert_eq!(data(&other, &queue).await, texts(&["second"]));
}

/// Later nodes are admitted in both cases.
#[tokio::test]
async fn node_keeps_both_its_data_and_its_permit_mark() {
    let (config, one, stranger) = place().await;
    let other = backend(&config).await;
    let queue = address(&config, Kind::Semaphore, "a");
    let directory = format!("/{}/semaphore/a", config.namespace);
    let first = admitted(one.join(&with_data(&queue, Permits(1), b"one")).await);
    let second = admitted(one.join(&with_data(&queue, Permits(1), b"two")).await);
    let head = waiting(other.join(&with_data(&queue, Permits(1), b"\0admitted")).await);
    let last = waiting(other.join(&with_data(&queue, Permits(1), b"four")).await);
    assert!(
        still_waits(&other, &queue, last.admitted()).await,
        "the data of the head do not count as a mark"
    );
    let admitted_ones =
        async || -> Vec<_> { entries(&one, &queue).await.iter().map(|entry| entry.admitted).collect() };
    assert_eq!(
        admitted_ones().await,
        [true, true, false, false],
        "the data do not count as a mark in a listing"
    );
    first.leave().await.unwrap();
    soon(head.admitted()).await.unwrap();
    // The node marks itself for its successor.
    let node = async || stored(&stranger, &directory).await.swap_remove(1);
    soon(async { while node().await != b"tester\0data 9 \0admitted\0admitted" {} }).await;
    head.write_data(&b"new"[..].into()).await.unwrap();
    assert_eq!(node().await, b"tester\0data 3 new\0admitted");
    assert_eq!(data(&one, &queue).await, texts(&["two", "new", "four"]));
    assert_eq!(admitted_ones().await, [true, true, false]);
    second.leave().await.unwrap();
    soon(last.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_writer_whose_downgrade_has_no_answer_keeps_its_data_and_takes_others() {
    let (config, proxy, [one, other]) = proxied().await;
    let queue = address(&config, Kind::RwLock, "a");
    let writer = admitted(one.join(&with_data(&queue, Exclusive, b"writer")).await);
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
    assert_eq!(writer.downgrade().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    soon(cut.fired()).await.unwrap();
    assert_eq!(data(&other, &queue).await, texts(&["writer"]));
    soon(writer.write_data(&b"reader"[..].into())).await.unwrap();
    writer.downgrade().await.unwrap();
    assert_eq!(data(&other, &queue).await, texts(&["reader"]));
    writer.leave().await.unwrap();
}

/// A participant of Curator after a written node is never notified of its end.
#[tokio::test]
async fn an_election_at_an_exact_address_holds_data_alone_and_takes_no_others() {
    let (config, one, stranger) = place().await;
    let other = backend(&config).await;
    let path = format!("/{}-app/leader", config.namespace);
    let queue = address(&config, Kind::Election, Key::exact(path.as_str()));
    for data in ["", "id\0admitted", "tester\0data 1 x"] {
        let leader = admitted(one.join(&with_data(&queue, Exclusive, data.as_bytes())).await);
        assert_eq!(bytes(&stranger, &path).await, data);
        let name = stranger.list_children(&path).await.unwrap().remove(0);
        assert!(name.starts_with("_c_") && name.contains("-latch-"), "{name}");
        let answer = leader.write_data(&b"new"[..].into()).await;
        fails(answer, ErrorKind::Unsupported { capability: "write_data" }, "exact");
        assert_eq!(bytes(&stranger, &path).await, data);
        let shown = entries(&other, &queue).await.remove(0);
        assert_eq!((&*shown.data, shown.label), (data.as_bytes(), data.replace('\0', "\\u{0}")));
        leader.leave().await.unwrap();
    }
}

#[tokio::test]
async fn data_that_were_surely_not_written_are_never_written() {
    let short = |one: &mut Config| {
        (one.ttl, one.request_timeout) = (Duration::from_secs(60), Duration::from_secs(5));
    };
    let (config, proxy, [one, other]) = proxied_with(short).await;
    let queue = address(&config, Kind::Semaphore, "a");
    let first = admitted(other.join(&with_data(&queue, Permits(2), b"first")).await);
    let head = waiting(one.join(&with_data(&queue, Permits(1), b"head")).await);
    let _behind = waiting(other.join(&with_data(&queue, Permits(2), b"behind")).await);
    proxy.refuse();
    proxy.cut();
    suspended(&one.lease()).await;
    fails(head.write_data(&b"never"[..].into()).await, ErrorKind::Unavailable, "the link is cut");
    first.leave().await.unwrap();
    proxy.resume();
    soon(head.admitted()).await.unwrap();
    let stranger = stranger(server().await.addr()).await;
    let directory = format!("/{}/semaphore/a", config.namespace);
    let node = soon(async {
        loop {
            if let Some(node) = stored(&stranger, &directory).await.into_iter().find(|node| is_marked(node)) {
                break node;
            }
        }
    })
    .await;
    assert_eq!(node, b"tester\0data 4 head\0admitted");
}
