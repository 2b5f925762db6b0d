//! A removal by hand.

use std::sync::Arc;

use super::{DELETE, names, waits};
use crate::common::{
    address, admitted, backend, config, holds, join, one_proxied, promptly, put, server, soon, still_waits,
    stranger, waiting,
};
use latchwork_core::contracts::{Node, NodeId, Page};
use latchwork_core::decide::Claim::{Exclusive, Permits};
use latchwork_core::{Address, ErrorKind, Kind, LostReason};
use zookeeper_client::CreateMode;

#[tokio::test]
async fn a_revoked_holder_or_waiter_learns_it_at_once_and_the_next_is_admitted() {
    let config = config(server().await.addr());
    let (one, operator) = (backend(&config).await, backend(&config).await);
    let revoked = async |queue: &Address, node: &Arc<dyn Node>| {
        assert!(operator.revoke(queue, node.state().sequence()).await.unwrap());
        assert_eq!(promptly(node.state().until_lost()).await, LostReason::Revoked);
        assert!(!operator.revoke(queue, node.state().sequence()).await.unwrap(), "it was there");
        // No node is left to remove.
        node.leave().await.unwrap();
    };
    for (kind, claim) in [(Kind::Mutex, Exclusive), (Kind::RwLock, Exclusive), (Kind::Semaphore, Permits(2))]
    {
        let queue = address(&config, kind, "a");
        assert!(!operator.revoke(&queue, 1).await.unwrap(), "the queue was never used");
        let holder = admitted(one.join(&join(&queue, claim)).await);
        let waiter = waiting(one.join(&join(&queue, claim)).await);
        let next = waiting(one.join(&join(&queue, claim)).await);
        let [waiter_waits, next_waits] = [&waiter, &next].map(waits);
        assert!(still_waits(&one, &queue, waiter.admitted()).await);
        revoked(&queue, &waiter).await;
        let lost = promptly(waiter_waits).await.unwrap().unwrap_err();
        assert_eq!(lost.lost_reason(), Some(LostReason::Revoked));
        assert!(still_waits(&one, &queue, next.admitted()).await);
        revoked(&queue, &holder).await;
        promptly(next_waits).await.unwrap().unwrap();
        next.leave().await.unwrap();
    }

    // A downgraded writer has its first number.
    let queue = address(&config, Kind::RwLock, "a");
    let holder = admitted(one.join(&join(&queue, Exclusive)).await);
    let next = waiting(one.join(&join(&queue, Exclusive)).await);
    let next_waits = waits(&next);
    holder.downgrade().await.unwrap();
    assert!(still_waits(&one, &queue, next.admitted()).await);
    revoked(&queue, &holder).await;
    promptly(next_waits).await.unwrap().unwrap();
    next.leave().await.unwrap();
}

/// More nodes ahead than are read in one trip, one of them foreign.
#[tokio::test]
async fn a_node_far_back_and_a_strangers_node_are_found_by_their_numbers() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::RwLock, "a");
    let backend = backend(&config).await;
    let stranger = stranger(addr).await;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let prefix = |claim: &str| {
        format!("/{}/rwlock/a/_c_{}-__{claim}__", config.namespace, NodeId::random().hyphenated())
    };
    let mut theirs = Vec::new();
    for _ in 0..300 {
        theirs.push(put(&stranger, &prefix("READ"), CreateMode::EphemeralSequential).await);
    }
    let last = waiting(backend.join(&join(&queue, Exclusive)).await);
    let entries = backend.list(&queue, Page::new(0, 1000)).await.unwrap();
    assert_eq!(entries.len(), 302);
    assert!(backend.revoke(&queue, entries[290].sequence).await.unwrap());
    assert_eq!(stranger.check_stat(&theirs[289]).await.unwrap(), None);
    assert_eq!(names(&stranger, &config, Kind::RwLock).await.len(), 301);
    assert!(backend.revoke(&queue, last.state().sequence()).await.unwrap());
    // A waiter learns it in its wait.
    assert_eq!(promptly(last.admitted()).await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
    holder.leave().await.unwrap();
}

#[tokio::test]
async fn a_revocation_whose_reply_was_lost_is_repeated_without_harm() {
    let config = config(server().await.addr());
    let (proxy, [operator, one]) = one_proxied(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let holder = admitted(one.join(&join(&queue, Exclusive)).await);
    let next = waiting(one.join(&join(&queue, Exclusive)).await);
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, DELETE));
    let error = operator.revoke(&queue, holder.state().sequence()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{error}");
    soon(cut.fired()).await.unwrap();
    assert!(!soon(operator.revoke(&queue, holder.state().sequence())).await.unwrap());
    soon(next.admitted()).await.unwrap();
    assert_eq!(promptly(holder.state().until_lost()).await, LostReason::Revoked);
    next.leave().await.unwrap();
}
