//! Requests whose replies are lost, or never come.

use std::time::Duration;

use super::{ALL, CREATE2, LIST, READ, through};
use crate::common::{address, admitted, backend, holds, join, server, soon, try_backend};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::contracts::{Close, Join, LeaseState};
use latchwork_core::decide::Claim::Exclusive;
use latchwork_core::{ErrorKind, Kind};

#[tokio::test]
async fn a_create_whose_reply_was_lost_is_adopted_and_makes_no_second_node() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let config = through(&proxy).await;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    // Makes the directory, so that the next create is not refused for it.
    admitted(backend.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, CREATE2));
    let request = join(&queue, Exclusive);
    let error = backend.join(&request).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
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
    // A repeated abandon does no harm.
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
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        soon(cut.fired()).await.unwrap();
    }
}

#[tokio::test]
async fn a_joins_request_is_unavailable_while_it_is_cut_off_and_closed_after_the_end() {
    let proxy = Proxy::start(server().await.addr()).await.unwrap();
    let mut config = through(&proxy).await;
    config.request_timeout = Duration::from_secs(2);
    let backend = try_backend(&config).await.unwrap();
    let queue = address(&config, Kind::Mutex, "a");
    proxy.refuse();
    proxy.cut();
    let lease = backend.lease();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    let request = join(&queue, Exclusive);
    assert_eq!(backend.join(&request).await.unwrap_err().kind(), ErrorKind::Unavailable);
    let error = backend.close(Close::Orderly).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the server could not be reached");
    assert_eq!(backend.join(&request).await.unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(backend.close(Close::Orderly).await.unwrap_err().kind(), error.kind());
}
