use super::names;
use crate::common::request::DELETE;
use crate::common::{ALL, address, admitted, holds, join, place, plant, promptly, proxied, soon, waiting};
use latchwork_conformance::errors::fails;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::NodeId;
use latchwork_core::{ErrorKind, Kind, LostReason};
use zookeeper_client::CreateMode;

#[tokio::test]
async fn a_node_far_back_and_a_strangers_node_are_found_by_their_numbers() {
    let (config, backend, stranger) = place().await;
    let queue = address(&config, Kind::RwLock, "a");
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let prefix = |claim: &str| {
        format!("/{}/rwlock/a/_c_{}-__{claim}__", config.namespace, NodeId::random().hyphenated())
    };
    let mut theirs = Vec::new();
    for _ in 0..300 {
        theirs.push(plant(&stranger, &prefix("READ"), CreateMode::EphemeralSequential).await);
    }
    let last = waiting(backend.join(&join(&queue, Exclusive)).await);
    let entries = backend.list(&queue, ALL).await.unwrap();
    assert_eq!(entries.len(), 302);
    assert!(backend.revoke(&queue, entries[290].sequence).await.unwrap());
    assert_eq!(stranger.check_stat(&theirs[289]).await.unwrap(), None);
    assert_eq!(names(&stranger, &config, Kind::RwLock).await.len(), 301);
    assert!(backend.revoke(&queue, last.state().sequence()).await.unwrap());
    assert_eq!(promptly(last.admitted()).await.unwrap_err().lost_reason(), Some(LostReason::Revoked));
    holder.leave().await.unwrap();
}

#[tokio::test]
async fn a_revocation_whose_reply_was_lost_is_repeated_without_harm() {
    let (config, proxy, [operator, one]) = proxied().await;
    let queue = address(&config, Kind::Mutex, "a");
    let holder = admitted(one.join(&join(&queue, Exclusive)).await);
    let next = waiting(one.join(&join(&queue, Exclusive)).await);
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, DELETE));
    fails(operator.revoke(&queue, holder.state().sequence()).await, ErrorKind::OutcomeUnknown, "no reply");
    soon(cut.fired()).await.unwrap();
    assert!(!soon(operator.revoke(&queue, holder.state().sequence())).await.unwrap());
    soon(next.admitted()).await.unwrap();
    assert_eq!(promptly(holder.state().until_lost()).await, LostReason::Revoked);
    next.leave().await.unwrap();
}
