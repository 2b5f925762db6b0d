//! Nodes and acts of other programs.

use std::collections::BTreeSet;

use crate::common::{
    address, admitted, backend, config, coordinator, join, promptly, put, server, soon, still_waits,
    stranger, waiting,
};
use latchwork_core::contracts::Close;
use latchwork_core::decide::Claim::Exclusive;
use latchwork_core::{Address, Kind, LostReason};
use zookeeper_client::CreateMode;

#[tokio::test]
async fn curators_contenders_are_honoured_at_an_exact_address_and_other_children_do_no_harm() {
    let addr = server().await.addr();
    let config = config(addr);
    let stranger = stranger(addr).await;
    let path = format!("/{}-app/locks/invoices", config.namespace);
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex(Address::exact(path.as_str())).unwrap();
    // The directories are made as Curator makes them.
    soon(mutex.acquire()).await.unwrap().release().await.unwrap();
    put(&stranger, &format!("{path}/note"), CreateMode::Persistent).await;
    let foreign = put(
        &stranger,
        &format!("{path}/_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-"),
        CreateMode::EphemeralSequential,
    )
    .await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    soon(async {
        while mutex.queue().first(10).await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!waiting.is_finished());
    stranger.delete(&foreign, None).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    // A Curator behind us sees our node as one of its own.
    let names = stranger.list_children(&path).await.unwrap();
    assert!(names.iter().any(|name| name.starts_with("_c_") && name.contains("-lock-")), "{names:?}");
    guard.release().await.unwrap();
    coordinator.close().await.unwrap();
}

#[tokio::test]
async fn a_holder_and_a_waiter_whose_nodes_are_deleted_are_revoked_at_once() {
    let addr = server().await.addr();
    let config = config(addr);
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let stranger = stranger(addr).await;
    let holder = admitted(backend.join(&join(&queue, Exclusive)).await);
    let waiter = waiting(backend.join(&join(&queue, Exclusive)).await);
    let waits = tokio::spawn({
        let node = waiter.clone();
        async move { node.admitted().await }
    });
    assert!(still_waits(&backend, &queue, waiter.admitted()).await);
    let path = format!("/{}/mutex/a", config.namespace);
    let names: BTreeSet<_> = stranger
        .list_children(&path)
        .await
        .unwrap()
        .into_iter()
        .map(|name| (name[name.len() - 10..].to_owned(), name))
        .collect();
    let [holding, waiting]: [_; 2] =
        names.into_iter().map(|(_, name)| name).collect::<Vec<_>>().try_into().unwrap();
    // The waiter first: it must not take the end of the holder for its admission.
    stranger.delete(&format!("{path}/{waiting}"), None).await.unwrap();
    stranger.delete(&format!("{path}/{holding}"), None).await.unwrap();
    let lost = promptly(holder.state().until_lost()).await;
    assert_eq!(lost, LostReason::Revoked);
    assert_eq!(soon(waits).await.unwrap().unwrap_err().lost_reason(), Some(LostReason::Revoked));
    assert_eq!(backend.lease().lost(), None, "the lease is none the worse");
    backend.close(Close::Orderly).await.unwrap();
}
