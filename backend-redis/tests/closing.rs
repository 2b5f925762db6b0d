//! A client that is closed while its requests are under way leaves nothing on the server.

mod common;

use std::sync::Arc;
use std::time::Instant;

use common::{admitted, ask, client, is_script, own, queue, says, soon, waiting};
use futures_util::FutureExt;
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::Server;
use latchwork_core::contracts::{Backend, Close, Node, Page};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, ErrorKind, Kind};

const ALL: Page = Page { after: 0, most: 100 };

/// With this TTL nothing runs out within a test.
const LONG: &str = "60s";

/// A client whose replies can be held back.
async fn proxied(server: &Server) -> (Proxy, Arc<dyn Backend>) {
    let proxy = Proxy::start(server.addr().to_string()).await.unwrap();
    let backend = common::connect(&format!("redis://{}?ttl={LONG}", proxy.addr())).await.unwrap();
    (proxy, backend)
}

async fn standing(backend: &Arc<dyn Backend>, queue: &Address) -> usize {
    backend.list(queue, ALL).await.unwrap().len()
}

async fn closed_while_joining(drop_first: bool) {
    let server = own(&[]).await;
    let ((proxy, backend), other) = (proxied(&server).await, client(&server, LONG).await);
    let mutex = queue(Kind::Mutex, "a");
    let mut joined = proxy.hold_reply_to(is_script);
    let joining = tokio::spawn({
        let (backend, join) = (Arc::clone(&backend), ask(&mutex, Claim::Exclusive));
        async move { backend.join(&join).await }
    });
    soon(joined.fired()).await.unwrap();
    assert_eq!(standing(&other, &mutex).await, 1, "the server has carried it out");
    if drop_first {
        joining.abort();
    }
    let mut closing = backend.close(Close::Orderly);
    assert!((&mut closing).now_or_never().is_none(), "closed before the server could hear of it");
    // Only now, or it would be no join in flight.
    proxy.resume();
    soon(closing).await.unwrap();
    match soon(joining).await {
        Ok(answer) => assert_eq!(*answer.unwrap_err().kind(), ErrorKind::Closed),
        Err(error) => assert!(drop_first && error.is_cancelled(), "{error}"),
    }
    assert_eq!(standing(&other, &mutex).await, 0, "its node is left to its TTL");
}

#[tokio::test]
async fn a_join_in_flight_is_taken_back_by_the_close() {
    closed_while_joining(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_in_flight_is_taken_back_by_the_close_from_another_thread() {
    closed_while_joining(false).await;
}

#[tokio::test]
async fn a_join_that_was_dropped_and_not_abandoned_yet_is_taken_back_by_the_close() {
    closed_while_joining(true).await;
}

#[tokio::test]
async fn a_leave_that_was_lost_is_sent_again_by_the_close() {
    let server = own(&[]).await;
    let ((proxy, backend), other) = (proxied(&server).await, client(&server, LONG).await);
    let mutex = queue(Kind::Mutex, "a");
    let held = admitted(&backend, &ask(&mutex, Claim::Exclusive)).await;
    let mut lost = proxy.park_request(is_script);
    let error = soon(held.leave()).await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    soon(lost.caught()).await.unwrap();
    assert_eq!(standing(&other, &mutex).await, 1, "the server has not heard of it");
    soon(backend.close(Close::Orderly)).await.unwrap();
    assert_eq!(standing(&other, &mutex).await, 0, "its node is left to its TTL");
}

#[tokio::test]
async fn a_close_on_a_connection_that_fell_silent_is_confirmed_on_another() {
    let server = own(&[]).await;
    let ((proxy, backend), other) = (proxied(&server).await, client(&server, LONG).await);
    let mutex = queue(Kind::Mutex, "a");
    let _held = admitted(&backend, &ask(&mutex, Claim::Exclusive)).await;
    let silent = proxy.hold_reply_to(is_script);
    soon(backend.close(Close::Orderly)).await.unwrap();
    assert!(silent.has_fired());
    assert_eq!(standing(&other, &mutex).await, 0);
}

/// What a client lost without the server's knowledge was being given back when the connection broke.
async fn given_back_in_vain() -> (Server, Proxy, [Arc<dyn Backend>; 2], Arc<dyn Node>, Address) {
    let server = own(&[]).await;
    let ((proxy, backend), other) = (proxied(&server).await, client(&server, LONG).await);
    let mutex = queue(Kind::Mutex, "a");
    let join = ask(&mutex, Claim::Exclusive);
    let lost = admitted(&backend, &join).await;
    let mut leave = proxy.park_request(says(&join.id.to_string()));
    lost.state().lease().clock().jump(backend.lease().ttl());
    // It looks at all its nodes when it is back.
    proxy.sever();
    soon(leave.caught()).await.unwrap();
    soon(proxy.wait_for_connections(1)).await;
    (server, proxy, [backend, other], lost, mutex)
}

#[tokio::test]
async fn a_lost_node_that_could_not_be_given_back_is_given_back_by_the_close() {
    let (_server, _proxy, [backend, other], _lost, mutex) = given_back_in_vain().await;
    soon(backend.close(Close::Orderly)).await.unwrap();
    assert_eq!(standing(&other, &mutex).await, 0, "its node is left to its TTL");
}

#[tokio::test]
async fn a_lost_node_that_could_not_be_given_back_is_given_back_later() {
    let (_server, _proxy, [_backend, other], _lost, mutex) = given_back_in_vain().await;
    let next = waiting(&other, &ask(&mutex, Claim::Exclusive)).await;
    let started = Instant::now();
    soon(next.admitted()).await.unwrap();
    assert!(started.elapsed() < other.lease().ttl() / 2, "it was left to its TTL");
}
