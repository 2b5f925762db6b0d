//! A writer that is downgraded.

use std::time::{Duration, Instant};

use super::{ALL, MULTI, listed, names, waits};
use crate::common::{
    address, admitted, backend, config, holds, join, one_proxied, promptly, server, soon, still_waits,
    stranger, waiting,
};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::contracts::Page;
use latchwork_core::decide::Claim::{Exclusive, Shared};
use latchwork_core::{ErrorKind, Kind, LostReason, Result};

#[tokio::test]
async fn a_downgraded_writer_keeps_token_and_place() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::RwLock, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let writer = admitted(one.join(&join(&queue, Exclusive)).await);
    let reader = waiting(other.join(&join(&queue, Shared)).await);
    let second = waiting(other.join(&join(&queue, Exclusive)).await);
    let last = waiting(one.join(&join(&queue, Shared)).await);
    let [w, r, w2, r2] = [&writer, &reader, &second, &last].map(|node| node.state().sequence());
    let [reads, writes, reads_last] = [&reader, &second, &last].map(waits);

    writer.downgrade().await.unwrap();
    promptly(reads).await.unwrap().unwrap();
    // Repeated, it does nothing.
    writer.downgrade().await.unwrap();
    assert_eq!(writer.state().sequence(), w);
    let shown = [(w, Shared, true), (r, Shared, true), (w2, Exclusive, false), (r2, Shared, false)];
    assert_eq!(listed(&other, &queue).await, shown);
    assert!(one.list(&queue, ALL).await.unwrap().iter().all(|entry| entry.label == "tester"));
    // By pages of one, each behind the last.
    let mut after = 0;
    for (sequence, ..) in shown {
        let page = other.list(&queue, Page::new(after, 1)).await.unwrap();
        assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [sequence]);
        after = sequence;
    }
    assert!(!writes.is_finished() && !reads_last.is_finished());
    reader.leave().await.unwrap();
    assert!(still_waits(&other, &queue, second.admitted()).await, "beside the reader that was a writer");
    writer.leave().await.unwrap();
    promptly(writes).await.unwrap().unwrap();
    assert!(still_waits(&one, &queue, last.admitted()).await);
    second.leave().await.unwrap();
    promptly(reads_last).await.unwrap().unwrap();
    last.leave().await.unwrap();
    assert!(names(&stranger(addr).await, &config, Kind::RwLock).await.is_empty());
}

#[tokio::test]
async fn only_a_held_writer_is_downgraded() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let backend = backend(&config).await;
    let not_held = |done: Result<()>| done.unwrap_err().kind() == ErrorKind::NotHeld;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(not_held(waiter.downgrade().await), "it would overtake");
    let mutex = address(&config, Kind::Mutex, "a");
    assert!(not_held(admitted(backend.join(&join(&mutex, Exclusive)).await).downgrade().await));
    holder.leave().await.unwrap();
    assert!(not_held(holder.downgrade().await), "it has left");
    soon(waiter.admitted()).await.unwrap();
    assert_eq!(listed(&backend, &queue).await, [(waiter.state().sequence(), Exclusive, true)]);
}

#[tokio::test]
async fn a_downgrade_whose_reply_was_lost_is_repeated_without_harm() {
    let addr = server().await.addr();
    let proxy = Proxy::start(addr).await.unwrap();
    let config = config(&proxy.addr().to_string());
    let backend = backend(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    let node = admitted(backend.join(&join(&queue, Exclusive)).await);
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
    assert_eq!(node.downgrade().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    soon(cut.fired()).await.unwrap();
    soon(node.downgrade()).await.unwrap();
    let expected = [(node.state().sequence(), Shared, true)];
    assert_eq!(soon(listed(&backend, &queue)).await, expected);
    assert_eq!(node.state().lost(), None);
    node.leave().await.unwrap();
    assert!(names(&stranger(addr).await, &config, Kind::RwLock).await.is_empty());
}

/// A downgrade of unknown outcome was carried out, or is still to be, or comes when all is over.
#[tokio::test]
async fn a_leave_after_an_unknown_downgrade_leaves_nothing() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    for late in [false, true] {
        let proxy = Proxy::start(addr).await.unwrap();
        let config = config(&proxy.addr().to_string());
        let backend = backend(&config).await;
        let queue = address(&config, Kind::RwLock, "a");
        let node = admitted(backend.join(&join(&queue, Exclusive)).await);
        let unknown =
            async || assert_eq!(node.downgrade().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        let reads = waits(&waiting(backend.join(&join(&queue, Shared)).await));
        if late {
            let parked = proxy.park_request(|chunk| holds(chunk, MULTI));
            unknown().await;
            soon(async { while node.leave().await.is_err() {} }).await;
            // The server may have closed this connection when the session moved to another.
            let _ = soon(parked.deliver()).await;
        } else {
            let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
            unknown().await;
            soon(cut.fired()).await.unwrap();
            soon(async { while node.leave().await.is_err() {} }).await;
        }
        promptly(reads).await.unwrap().unwrap();
        let left = names(&stranger, &config, Kind::RwLock).await;
        assert!(left.len() == 1 && left[0].ends_with("__READ__0000000001"), "late {late}: {left:?}");
    }
}

#[tokio::test]
async fn a_leave_while_a_downgrade_is_under_way_leaves_nothing() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    let config = config(addr);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    for downgrade_first in [true, false, true, false] {
        let node = admitted(backend.join(&join(&queue, Exclusive)).await);
        let (downgraded, left) = if downgrade_first {
            tokio::join!(biased; node.downgrade(), node.leave())
        } else {
            let (left, downgraded) = tokio::join!(biased; node.leave(), node.downgrade());
            (downgraded, left)
        };
        left.unwrap();
        assert_eq!(downgraded.is_ok(), downgrade_first, "{downgraded:?}");
        assert!(names(&stranger, &config, Kind::RwLock).await.is_empty());
        assert_eq!(node.state().lost(), None, "its own doing");
    }
}

/// With the own node watched by the wait, and with no watch yet.
#[tokio::test]
async fn a_removal_after_a_downgrade_is_noticed_at_once_and_is_not_taken_for_it() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    let config = config(addr);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    for waited in [false, true] {
        let first = admitted(backend.join(&join(&queue, Exclusive)).await);
        let node = if waited {
            let node = waiting(backend.join(&join(&queue, Exclusive)).await);
            let admitted = waits(&node);
            // Longer than a wait does without a watch on its own node, and the round trips that arm
            // it.
            let since = Instant::now();
            while since.elapsed() < Duration::from_millis(400) {
                assert_eq!(listed(&backend, &queue).await.len(), 2);
            }
            first.leave().await.unwrap();
            soon(admitted).await.unwrap().unwrap();
            node
        } else {
            first
        };
        node.downgrade().await.unwrap();
        let lost = tokio::time::timeout(Duration::from_millis(300), node.state().until_lost()).await;
        assert!(lost.is_err(), "{lost:?}");
        let name = names(&stranger, &config, Kind::RwLock).await.remove(0);
        assert!(name.contains("__READ__"));
        stranger.delete(&format!("/{}/rwlock/a/{name}", config.namespace), None).await.unwrap();
        assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
        assert_eq!(node.downgrade().await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
        assert_eq!(backend.lease().lost(), None);
    }
}

#[tokio::test]
async fn a_writer_that_was_removed_does_not_come_back_as_a_reader() {
    let addr = server().await.addr();
    let stranger = stranger(addr).await;
    let config = config(addr);
    let (proxy, [cut_off, other]) = one_proxied(&config).await;
    let queue = address(&config, Kind::RwLock, "a");
    let node = admitted(cut_off.join(&join(&queue, Exclusive)).await);
    let parked = proxy.park_request(|chunk| holds(chunk, MULTI));
    assert_eq!(node.downgrade().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(other.revoke(&queue, node.state().sequence()).await.unwrap());
    assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
    let _ = soon(parked.deliver()).await;
    assert!(names(&stranger, &config, Kind::RwLock).await.is_empty());
}
