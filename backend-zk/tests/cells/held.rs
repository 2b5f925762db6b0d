use std::sync::Arc;
use std::time::Duration;

use super::{cell, put, put_value, value, written};
use crate::common::request::MULTI;
use crate::common::{address, admitted, holds, join, proxied, proxied_with, soon, suspended};
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, CellWritten, Node};
use latchwork_core::{Address, Config, ErrorKind, Expected, Kind, LostReason, Result};

async fn holder(backend: &Arc<dyn Backend>, queue: &Address) -> Arc<dyn Node> {
    admitted(backend.join(&join(queue, Exclusive)).await)
}

fn lost(answer: Result<CellWritten>) -> LostReason {
    let error = answer.expect_err("its node is gone");
    error.lost_reason().unwrap_or_else(|| panic!("{error}"))
}

#[tokio::test]
async fn a_write_after_the_end_of_the_lease_is_lost_and_not_made() {
    let short = |one: &mut Config| {
        (one.ttl, one.request_timeout) = (Duration::from_secs(10), Duration::from_secs(60));
    };
    let (config, proxy, [one, other]) = proxied_with(short).await;
    let at = value(&config, "a");
    let node = holder(&one, &address(&config, Kind::Mutex, "a")).await;
    proxy.cut();
    suspended(&one.lease()).await;
    let reason = lost(soon(node.write_cell(&at, &put(Expected::Any, b"x"))).await);
    assert_eq!((reason, node.state().lost()), (LostReason::Expired, Some(reason)));
    proxy.resume();
    assert_eq!(lost(soon(node.write_cell(&at, &put(Expected::Any, b"x"))).await), LostReason::Expired);
    assert_eq!(other.read_cell(&at).await.unwrap(), None);
    put_value(&one, &at, b"one").await;
}

#[tokio::test]
async fn a_downgraded_holder_writes_and_learns_its_revocation() {
    let (config, proxy, [one, operator]) = proxied().await;
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
        let version = written(soon(node.write_cell(&at, &put(Expected::Any, b"reader"))).await);
        assert_eq!(cell(&operator, &at).await.version.number(), version.number());
        assert!(operator.revoke(&queue, node.state().sequence()).await.unwrap());
        assert_eq!(lost(node.write_cell(&at, &put(Expected::Any, b"x")).await), LostReason::Revoked);
        assert_eq!(cell(&operator, &at).await.version.number(), version.number());
    }
}
