use std::pin::pin;

use super::{all_hold_and_release, line_up};
use crate::common::request::{LIST, MULTI};
use crate::common::{
    ALL, address, backend, hear, holds, join, place, proxied, server, soon, still_waits, stranger, waiting,
};
use latchwork_conformance::errors::is_lost;
use latchwork_core::Claim::Exclusive;
use latchwork_core::{ErrorKind, Key, Kind, LostReason};
use zookeeper_client::Acls;

/// With any number of nodes ahead. If the release cannot be announced, the next waiter lists.
#[tokio::test]
async fn a_release_admits_its_direct_follower_and_no_other_leave_does() {
    let (config, proxy, [one, other]) = proxied().await;
    let stranger = stranger(server().await.addr()).await;
    let released = format!("/{}/released", config.namespace);
    // A node with only one node ahead does not announce.
    for (key, gives_up, lists) in
        [("a", false, false), ("b", true, true), ("forbidden", false, true), ("gone", false, true)]
    {
        assert_eq!(stranger.list_children(&released).await.unwrap(), [""; 0]);
        match key {
            "forbidden" => {
                stranger.set_acl(&released, Acls::anyone_read().as_ref(), None).await.unwrap();
            }
            "gone" => stranger.delete(&released, None).await.unwrap(),
            _ => {}
        }
        let queue = address(&config, Kind::Mutex, key);
        let mut ahead = line_up(&other, &queue, 2).await;
        let waiter = waiting(one.join(&join(&queue, Exclusive)).await);
        let mut admission = pin!(waiter.admitted());
        assert!(still_waits(&one, &queue, &mut admission).await);
        let mut listed = proxy.request(|chunk| holds(chunk, LIST));
        if gives_up {
            ahead.pop().unwrap().leave().await.unwrap();
            assert!(still_waits(&one, &queue, &mut admission).await);
            listed = proxy.request(|chunk| holds(chunk, LIST));
        }
        all_hold_and_release(ahead).await;
        hear(&one, &config).await;
        soon(admission).await.unwrap();
        assert_eq!(listed.has_fired(), lists, "{key}");
        waiter.leave().await.unwrap();
        assert!(other.list(&queue, ALL).await.unwrap().is_empty());
    }
}

/// The waiter sees its own removal first.
#[tokio::test]
async fn release_does_not_admit_a_waiter_without_a_node() {
    let (config, proxy, [client, other]) = proxied().await;
    let stranger = stranger(server().await.addr()).await;
    let queue = address(&config, Kind::Mutex, "a");
    let directory = format!("/{}/mutex/a", config.namespace);
    // The last one had others ahead, so it announces its release.
    let ahead = line_up(&other, &queue, 2).await;
    let waiter = waiting(client.join(&join(&queue, Exclusive)).await);
    let mut admission = pin!(waiter.admitted());
    assert!(still_waits(&client, &queue, &mut admission).await);
    let names = stranger.list_children(&directory).await.unwrap();
    let own = names.iter().max_by_key(|name| &name[name.len() - 10..]).unwrap();
    let listed = proxy.request(|chunk| holds(chunk, LIST));
    stranger.delete(&format!("{directory}/{own}"), None).await.unwrap();
    all_hold_and_release(ahead).await;
    is_lost(soon(admission).await, LostReason::Revoked);
    assert!(!listed.has_fired(), "the event is enough");
}

/// The request may have been carried out: a repetition finds no node.
#[tokio::test]
async fn a_release_whose_answer_is_lost_is_asked_again() {
    let (config, proxy, [one, other]) = proxied().await;
    let queue = address(&config, Kind::Mutex, "a");
    let ahead = line_up(&other, &queue, 1).await;
    let (next, last) = (
        waiting(one.join(&join(&queue, Exclusive)).await),
        waiting(other.join(&join(&queue, Exclusive)).await),
    );
    let mut admission = pin!(next.admitted());
    assert!(still_waits(&one, &queue, &mut admission).await);
    all_hold_and_release(ahead).await;
    soon(admission).await.unwrap();
    let mut lost = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
    assert_eq!(next.leave().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    lost.fired().await.unwrap();
    soon(last.admitted()).await.unwrap();
    while next.leave().await.is_err() {}
    last.leave().await.unwrap();
    assert!(other.list(&queue, ALL).await.unwrap().is_empty());
}

/// Curator asks by writing the node's data.
#[tokio::test]
async fn a_holder_that_is_asked_to_release_has_not_released() {
    let (config, client, stranger) = place().await;
    let other = backend(&config).await;
    let exact = format!("/{}-exact", config.namespace);
    for (queue, directory) in [
        (address(&config, Kind::Mutex, "a"), format!("/{}/mutex/a", config.namespace)),
        (address(&config, Kind::Mutex, Key::exact(exact.as_str())), exact.clone()),
    ] {
        let mut ahead = line_up(&other, &queue, 1).await;
        let waiter = waiting(client.join(&join(&queue, Exclusive)).await);
        let mut admission = pin!(waiter.admitted());
        assert!(still_waits(&client, &queue, &mut admission).await);
        for name in stranger.list_children(&directory).await.unwrap() {
            stranger.set_data(&format!("{directory}/{name}"), b"__REVOKE__", None).await.unwrap();
        }
        assert!(still_waits(&client, &queue, &mut admission).await);
        ahead.pop().unwrap().leave().await.unwrap();
        assert!(still_waits(&client, &queue, &mut admission).await);
        all_hold_and_release(ahead).await;
        soon(admission).await.unwrap();
        waiter.leave().await.unwrap();
    }
}
