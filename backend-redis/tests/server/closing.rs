use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use latchwork_conformance::proxy::Proxy;
use latchwork_conformance::servers::Server;
use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::backend::{Backend, Close, Node};
use latchwork_core::{
    Address, Claim, Config, Coordinator, Ended, ErrorKind, Kind, LeaseState, LostReason, Move, MoveConfig,
    connect,
};
use tokio::time::timeout;

use crate::common::{
    ALL, LONG, admitted, ask, client, is_script, own, queue, says, served, soon, standing, until, waiting,
};

const MORTAL: &str = "5s";

#[tokio::test]
async fn orderly_close_removes_nodes_and_abrupt_close_keeps_them() {
    let (server, _operator, orderly) = served("30s").await;
    let (abrupt, other) = (client(&server, "30s").await, client(&server, "30s").await);
    let (a, b) = (queue(Kind::Mutex, "a"), queue(Kind::Mutex, "b"));
    let (held, left) = (
        admitted(&orderly, &ask(&a, Claim::Exclusive)).await,
        admitted(&abrupt, &ask(&b, Claim::Exclusive)).await,
    );
    let next = waiting(&other, &ask(&a, Claim::Exclusive)).await;
    orderly.close(Close::Orderly).await.unwrap();
    abrupt.close(Close::Abrupt).await.unwrap();
    assert_eq!(held.state().lost(), Some(LostReason::Closed));
    // A dead client reports no close: its hold is lost at its deadline.
    assert_eq!(left.state().lost(), None);
    for (client, node) in [(&orderly, &held), (&abrupt, &left)] {
        assert_eq!(client.lease().state(), LeaseState::Lost(LostReason::Closed));
        assert_eq!(node.leave().await.unwrap_err().kind(), ErrorKind::Closed);
        client.close(Close::Orderly).await.unwrap();
    }
    soon(next.admitted()).await.unwrap();
    assert_eq!(other.list(&b, ALL).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_close_that_was_dropped_in_its_margin_goes_on_with_the_next_one_or_with_the_last_handle() {
    let (server, _operator, other) = served(LONG).await;
    for again in [true, false] {
        let coordinator = Coordinator::new(client(&server, LONG).await, &Config::new("redis"));
        let guard = coordinator.mutex("a").unwrap().acquire().await.unwrap();
        timeout(Duration::from_millis(20), coordinator.close()).await.expect_err("a margin is longer");
        drop(guard);
        match again {
            true => coordinator.close().await.expect("closed"),
            false => drop(coordinator),
        }
        let given_back = until(async || standing(&other, &queue(Kind::Mutex, "a")).await.is_empty());
        timeout(Duration::from_secs(5), given_back).await.expect("far less than the TTL");
    }
}

#[tokio::test]
async fn a_client_of_both_sides_leaves_a_kept_hold_to_its_expiry_too() {
    let server = own(&[]).await;
    let side = |namespace: &str| {
        let url = format!("{}?ttl={MORTAL}&namespace={namespace}", server.url());
        Config::from_url(&url).expect("a good URL")
    };
    let sides = MoveConfig::new(side("from"), side("to"), "m");
    let connectors = [latchwork_redis::connector()];
    let both = Config::of_move(sides.clone());
    let takes_part =
        async || soon(connect(&connectors, &both)).await.expect("the client connects to both sides");
    let (operator, other) = (soon(Move::connect(&connectors, &sides)).await.unwrap(), takes_part().await);
    for phase in [MovePhase::Old, MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done]
    {
        if phase != MovePhase::Old {
            assert_eq!(soon(operator.advance(|_| {})).await.unwrap(), phase);
        }
        let closing = takes_part().await;
        let keys = [format!("kept-in-{phase}"), format!("dropped-in-{phase}")];
        let mutexes = keys.each_ref().map(|key| closing.mutex(key.as_str()).unwrap());
        // Longer than the TTL: no node outlives its client by more.
        let [kept, dropped] = mutexes.map(|mutex| mutex.acquire().min_hold(Duration::from_secs(600)));
        let kept = kept.await.unwrap();
        drop(dropped.await.unwrap());
        let free = closing.mutex("free").unwrap().acquire().await.unwrap();
        assert!(closing.capabilities().minimum_outlives_close, "{phase}");
        soon(closing.close_now()).await.unwrap();
        assert!(!kept.is_held() && !free.is_held());
        assert_eq!(other.mutex("free").unwrap().queue().first(9).await.unwrap(), [], "{phase}");
        let left = keys.map(|key| other.mutex(key).unwrap());
        for mutex in &left {
            assert_eq!(mutex.queue().first(9).await.unwrap().len(), 1, "{mutex:?}: given back");
        }
        for mutex in left {
            drop(soon(mutex.acquire()).await.expect("a request extended the expiry"));
        }
    }
    soon(other.close()).await.unwrap();
}

async fn proxied() -> (Server, Proxy, Arc<dyn Backend>, Arc<dyn Backend>) {
    let (server, _operator, other) = served(LONG).await;
    let proxy = Proxy::start(server.addr()).await.unwrap();
    let backend = crate::common::connect(&format!("redis://{}?ttl={LONG}", proxy.addr())).await;
    (server, proxy, backend, other)
}

async fn closed_while_joining(drop_first: bool) {
    let (_server, proxy, backend, other) = proxied().await;
    let mutex = queue(Kind::Mutex, "a");
    let mut joined = proxy.hold_reply_to(is_script);
    let joining = tokio::spawn({
        let (backend, join) = (Arc::clone(&backend), ask(&mutex, Claim::Exclusive));
        async move { backend.join(&join).await }
    });
    soon(joined.fired()).await.unwrap();
    assert_eq!(standing(&other, &mutex).await.len(), 1, "the server has carried out the request");
    if drop_first {
        joining.abort();
    }
    let mut closing = backend.close(Close::Orderly);
    assert!((&mut closing).now_or_never().is_none(), "closed before the server got the leave");
    // The join must be in flight during the close.
    proxy.resume();
    soon(closing).await.unwrap();
    match soon(joining).await {
        Ok(answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Closed),
        Err(error) => assert!(drop_first && error.is_cancelled(), "{error}"),
    }
    assert_eq!(standing(&other, &mutex).await.len(), 0, "its node is left to its TTL");
}

#[tokio::test]
async fn the_node_of_a_join_in_flight_is_removed_by_the_close() {
    closed_while_joining(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_node_of_a_join_in_flight_is_removed_by_the_close_from_another_thread() {
    closed_while_joining(false).await;
}

#[tokio::test]
async fn the_node_of_a_dropped_join_that_is_not_abandoned_yet_is_removed_by_the_close() {
    closed_while_joining(true).await;
}

#[tokio::test]
async fn a_leave_that_was_lost_is_sent_again_by_the_close() {
    let (_server, proxy, backend, other) = proxied().await;
    let mutex = queue(Kind::Mutex, "a");
    let held = admitted(&backend, &ask(&mutex, Claim::Exclusive)).await;
    let mut lost = proxy.park_request(is_script);
    let error = soon(held.leave()).await.unwrap_err();
    assert!(error.may_pass(), "{error}");
    soon(lost.caught()).await.unwrap();
    assert_eq!(standing(&other, &mutex).await.len(), 1, "the server has not got the leave");
    soon(backend.close(Close::Orderly)).await.unwrap();
    assert_eq!(standing(&other, &mutex).await.len(), 0, "its node is left to its TTL");
}

#[tokio::test]
async fn a_close_on_a_connection_that_fell_silent_is_confirmed_on_another() {
    let (_server, proxy, backend, other) = proxied().await;
    let mutex = queue(Kind::Mutex, "a");
    let _held = admitted(&backend, &ask(&mutex, Claim::Exclusive)).await;
    let silent = proxy.hold_reply_to(is_script);
    soon(backend.close(Close::Orderly)).await.unwrap();
    assert!(silent.has_fired());
    assert_eq!(standing(&other, &mutex).await.len(), 0);
}

async fn removed_in_vain() -> (Server, Proxy, [Arc<dyn Backend>; 2], Arc<dyn Node>, Address) {
    let (server, proxy, backend, other) = proxied().await;
    let mutex = queue(Kind::Mutex, "a");
    let join = ask(&mutex, Claim::Exclusive);
    let lost = admitted(&backend, &join).await;
    let mut leave = proxy.park_request(says(&join.id.to_string()));
    lost.state().lease().clock().jump(backend.lease().ttl());
    // A reconnect checks all nodes.
    proxy.sever();
    soon(leave.caught()).await.unwrap();
    soon(proxy.wait_for_connections(1)).await;
    (server, proxy, [backend, other], lost, mutex)
}

#[tokio::test]
async fn a_lost_node_whose_removal_failed_is_removed_by_the_close() {
    let (_server, _proxy, [backend, other], _lost, mutex) = removed_in_vain().await;
    soon(backend.close(Close::Orderly)).await.unwrap();
    assert_eq!(standing(&other, &mutex).await.len(), 0, "its node is left to its TTL");
}

#[tokio::test]
async fn a_lost_node_whose_removal_failed_is_removed_later() {
    let (_server, _proxy, [_backend, other], _lost, mutex) = removed_in_vain().await;
    let next = waiting(&other, &ask(&mutex, Claim::Exclusive)).await;
    let started = Instant::now();
    soon(next.admitted()).await.unwrap();
    assert!(started.elapsed() < other.lease().ttl() / 2, "the node was left to its TTL");
}

#[tokio::test]
async fn a_client_that_closes_leaves_a_kept_node_to_its_expiry() {
    let server = own(&[]).await;
    let (closing, other) = (client(&server, MORTAL).await, client(&server, LONG).await);
    let (a, b) = (queue(Kind::Mutex, "a"), queue(Kind::Mutex, "b"));
    let coordinator = Coordinator::new(Arc::clone(&closing), &Config::new("redis"));
    let kept = coordinator.mutex("a").unwrap().acquire().min_hold(Duration::from_secs(600)).await.unwrap();
    let free = admitted(&closing, &ask(&b, Claim::Exclusive)).await;
    let next = waiting(&other, &ask(&a, Claim::Exclusive)).await;
    let (clock, margin) = (closing.lease().clock().clone(), closing.lease().margin());
    let deadline = clock.now() + kept.remaining();
    closing.close(Close::Orderly).await.unwrap();
    assert_eq!(kept.lost().ended(), Some(Ended::Lost(LostReason::Closed)));
    assert_eq!(free.state().lost(), Some(LostReason::Closed));
    assert_eq!(standing(&other, &b).await, [false; 0]);
    assert_eq!(standing(&other, &a).await, [true, false], "given back");
    soon(next.admitted()).await.unwrap();
    // The hold is lost at its deadline, and the server drops it one margin later, by a clock that may be set.
    let expiry = deadline + margin - Duration::from_millis(1);
    assert!(clock.now() >= expiry, "let in {:?} before its expiry", expiry.since(clock.now()));
    assert_eq!(standing(&other, &a).await, [true]);
}
