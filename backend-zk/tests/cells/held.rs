//! Writes that are made only while a node stands (CELL-HELD).

use std::sync::Arc;
use std::time::Duration;

use super::{MULTI, cell, delete, put_value, set, value, written};
use crate::common::{
    address, admitted, backend, config, holds, join, one_proxied, one_proxied_with, server, soon, waiting,
};
use latchwork_conformance::proxy::Direction;
use latchwork_core::contracts::{Backend, CellWritten, Expected, LeaseState, Node};
use latchwork_core::decide::Claim::{Exclusive, Permits};
use latchwork_core::{Address, Config, ErrorKind, Kind, LostReason, Result};

async fn holder(backend: &Arc<dyn Backend>, queue: &Address) -> Arc<dyn Node> {
    admitted(backend.join(&join(queue, Exclusive)).await)
}

/// The reason why a write was not made.
fn lost(answer: Result<CellWritten>) -> LostReason {
    let error = answer.expect_err("its node is gone");
    error.lost_reason().unwrap_or_else(|| panic!("{error}"))
}

#[tokio::test]
async fn a_holder_writes_until_it_leaves() {
    let config = config(server().await.addr());
    let (one, other) = (backend(&config).await, backend(&config).await);
    let at = value(&config, "a");
    for (kind, claim) in [(Kind::Mutex, Exclusive), (Kind::RwLock, Exclusive), (Kind::Semaphore, Permits(1))]
    {
        let node = admitted(one.join(&join(&address(&config, kind, "a"), claim)).await);
        let first = written(node.write_cell(&at, &set(Expected::Absent, b"one")).await);
        let second = written(node.write_cell(&at, &set(Expected::Version(first), b"two")).await);
        // The condition on the cell counts as well.
        let refused = node.write_cell(&at, &set(Expected::Version(first), b"x")).await.unwrap();
        assert_eq!(refused, CellWritten::Refused(Some(cell(&other, &at).await)));
        put_value(&other, &value(&config, "b"), b"").await;
        let third = written(node.write_cell(&at, &set(Expected::Version(second), b"three")).await);
        assert_eq!(cell(&other, &at).await.version.number(), third.number());
        let deleted = node.write_cell(&at, &delete(Expected::Version(third))).await.unwrap();
        assert_eq!(deleted, CellWritten::Deleted { was_there: true });
        let absent = CellWritten::Deleted { was_there: false };
        assert_eq!(node.write_cell(&at, &delete(Expected::Any)).await.unwrap(), absent);
        assert_eq!(node.write_cell(&at, &delete(Expected::Absent)).await.unwrap(), absent);
        node.leave().await.unwrap();
        for write in [set(Expected::Any, b"x"), set(Expected::Absent, b"x"), delete(Expected::Absent)] {
            let error = node.write_cell(&at, &write).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotHeld, "{write:?}");
        }
        assert_eq!(other.read_cell(&at).await.unwrap(), None);
    }
}

/// The server decides: the holder has not heard of it.
#[tokio::test]
async fn a_write_of_a_holder_that_was_revoked_is_not_made_though_it_does_not_know() {
    let config = config(server().await.addr());
    let (proxy, [one, operator]) = one_proxied(&config).await;
    let (queue, at) = (address(&config, Kind::Mutex, "a"), value(&config, "a"));
    let now = put_value(&operator, &at, b"kept").await;
    for write in [
        set(Expected::Any, b"x"),
        set(Expected::Version(now), b"x"),
        delete(Expected::Any),
        delete(Expected::Version(now)),
    ] {
        let node = holder(&one, &queue).await;
        proxy.hold(Direction::ToClient);
        assert!(operator.revoke(&queue, node.state().sequence()).await.unwrap());
        let mut sent = proxy.request(|chunk| holds(chunk, MULTI));
        assert_eq!(node.state().lost(), None);
        let (answer, ()) = tokio::join!(soon(node.write_cell(&at, &write)), async {
            soon(sent.fired()).await.unwrap();
            proxy.resume();
        });
        assert_eq!(lost(answer), LostReason::Revoked, "{write:?}");
        assert_eq!(soon(node.state().until_lost()).await, LostReason::Revoked);
        assert_eq!(cell(&operator, &at).await.version.number(), now.number(), "{write:?}");
    }
    // Nor is a cell made.
    let (node, made) = (holder(&one, &queue).await, value(&config, "made"));
    assert!(operator.revoke(&queue, node.state().sequence()).await.unwrap());
    assert_eq!(lost(node.write_cell(&made, &set(Expected::Any, b"x")).await), LostReason::Revoked);
    assert_eq!(operator.read_cell(&made).await.unwrap(), None);
}

#[tokio::test]
async fn a_late_write_of_a_former_holder_is_not_made() {
    let config = config(server().await.addr());
    let (proxy, [one, other]) = one_proxied(&config).await;
    let (queue, at) = (address(&config, Kind::Mutex, "a"), value(&config, "a"));
    put_value(&other, &at, b"old").await;
    let node = holder(&one, &queue).await;
    let next = waiting(other.join(&join(&queue, Exclusive)).await);
    let mut parked = proxy.park_request(|chunk| holds(chunk, MULTI));
    // Its session must not come back, or the server would refuse the request for that.
    proxy.refuse();
    let answer = node.write_cell(&at, &set(Expected::Any, b"late")).await;
    soon(parked.caught()).await.unwrap();
    assert_eq!(answer.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
    assert!(other.revoke(&queue, node.state().sequence()).await.unwrap());
    soon(next.admitted()).await.unwrap();
    let newer = written(next.write_cell(&at, &set(Expected::Any, b"new")).await);
    soon(parked.deliver()).await.unwrap();
    assert_eq!(cell(&other, &at).await.version.number(), newer.number());
    next.leave().await.unwrap();
}

#[tokio::test]
async fn a_write_after_the_end_of_the_lease_is_lost_and_not_made() {
    let config = config(server().await.addr());
    // The lease ends before the request does.
    let short = |one: &mut Config| {
        (one.ttl, one.request_timeout) = (Duration::from_secs(10), Duration::from_secs(60));
    };
    let (proxy, [one, other]) = one_proxied_with(&config, short).await;
    let at = value(&config, "a");
    let node = holder(&one, &address(&config, Kind::Mutex, "a")).await;
    proxy.cut();
    let lease = one.lease();
    soon(async { while lease.changed(LeaseState::Live).await != LeaseState::Suspended {} }).await;
    // It is sent nowhere while it is cut off, and its lease ends under it.
    let reason = lost(soon(node.write_cell(&at, &set(Expected::Any, b"x"))).await);
    assert_eq!((reason, node.state().lost()), (LostReason::Expired, Some(reason)));
    proxy.resume();
    assert_eq!(lost(soon(node.write_cell(&at, &set(Expected::Any, b"x"))).await), LostReason::Expired);
    assert_eq!(other.read_cell(&at).await.unwrap(), None);
    // The client itself goes on.
    put_value(&one, &at, b"one").await;
}

/// It has another path then.
#[tokio::test]
async fn a_downgraded_holder_writes_and_learns_its_revocation() {
    let config = config(server().await.addr());
    let (proxy, [one, operator]) = one_proxied(&config).await;
    let (queue, at) = (address(&config, Kind::RwLock, "a"), value(&config, "a"));
    for reply_is_lost in [false, true] {
        let node = holder(&one, &queue).await;
        if reply_is_lost {
            let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, MULTI));
            assert_eq!(node.downgrade().await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
            soon(cut.fired()).await.unwrap();
        } else {
            node.downgrade().await.unwrap();
        }
        let version = written(soon(node.write_cell(&at, &set(Expected::Any, b"reader"))).await);
        assert_eq!(cell(&operator, &at).await.version.number(), version.number());
        assert!(operator.revoke(&queue, node.state().sequence()).await.unwrap());
        assert_eq!(lost(node.write_cell(&at, &set(Expected::Any, b"x")).await), LostReason::Revoked);
        assert_eq!(cell(&operator, &at).await.version.number(), version.number());
    }
}
