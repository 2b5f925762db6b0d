//! A foreign client creates the node, as a server does after a stall.

use std::sync::Arc;

use super::through;
use crate::common::request::{CREATE2, DELETE};
use crate::common::{ALL, address, admitted, backend, holds, join, plant, server, soon, stranger, waiting};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Backend, Join, Patience};
use latchwork_core::{Address, Kind};
use zookeeper_client::{Client, CreateMode, EventType};

async fn unanswered(
    proxy: &Proxy,
    backend: &dyn Backend,
    request: &Join,
    stranger: &Client,
    directory: &str,
) -> String {
    let mut cut = proxy.drop_reply_to(|chunk| holds(chunk, CREATE2));
    backend.join(request).await.unwrap_err();
    soon(cut.fired()).await.unwrap();
    let names = stranger.list_children(directory).await.unwrap();
    assert_eq!(names.len(), 1, "{names:?}");
    names.into_iter().next().unwrap()
}

async fn comes_late_and_goes(stranger: &Client, directory: &str, name: &str) {
    let prefix = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let late = plant(stranger, &format!("{directory}/{prefix}"), CreateMode::PersistentSequential).await;
    let (there, watcher) = stranger.check_and_watch_stat(&late).await.unwrap();
    if there.is_some() {
        assert_eq!(soon(watcher.changed()).await.event_type, EventType::NodeDeleted);
    }
}

async fn fixture() -> (Proxy, Address, Arc<dyn Backend>, Client, String) {
    let addr = server().await.addr();
    let (proxy, config) = through(addr).await;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    admitted(backend.join(&join(&queue, Exclusive)).await).leave().await.unwrap();
    let directory = format!("/{}/mutex/a", config.namespace);
    (proxy, queue, backend, stranger(addr).await, directory)
}

#[tokio::test]
async fn a_create_that_comes_late_is_deleted_and_the_own_node_stays() {
    let (proxy, queue, backend, stranger, directory) = fixture().await;
    let request = join(&queue, Exclusive);
    let name = unanswered(&proxy, &*backend, &request, &stranger, &directory).await;
    let node = admitted(soon(backend.join(&Join { repeated: true, ..request })).await);
    comes_late_and_goes(&stranger, &directory, &name).await;
    assert_eq!(stranger.list_children(&directory).await.unwrap(), [name.as_str()]);
    assert_eq!(node.state().lost(), None);
    node.leave().await.unwrap();
    comes_late_and_goes(&stranger, &directory, &name).await;
    assert!(backend.list(&queue, ALL).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_create_that_comes_after_its_attempt_was_abandoned_is_deleted() {
    let (proxy, queue, backend, stranger, directory) = fixture().await;
    let request = join(&queue, Exclusive);
    let name = unanswered(&proxy, &*backend, &request, &stranger, &directory).await;
    soon(backend.abandon(&request)).await.unwrap();
    comes_late_and_goes(&stranger, &directory, &name).await;
    assert!(backend.list(&queue, ALL).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_node_whose_deletion_may_come_late_is_not_adopted() {
    let (proxy, queue, backend, stranger, directory) = fixture().await;
    let held = admitted(backend.join(&join(&queue, Exclusive)).await);
    // The try would have to wait, so it deletes its node.
    let request = Join { patience: Patience::Try, ..join(&queue, Exclusive) };
    let mut parked = proxy.park_request(|chunk| holds(chunk, DELETE));
    backend.join(&request).await.unwrap_err();
    soon(parked.caught()).await.unwrap();
    let mut names = stranger.list_children(&directory).await.unwrap();
    names.sort_unstable();
    assert_eq!(names.len(), 2, "{names:?}");

    let repeated = Join { repeated: true, patience: Patience::Wait, ..request };
    let node = waiting(soon(backend.join(&repeated)).await);
    let left = stranger.list_children(&directory).await.unwrap();
    assert_eq!(left.len(), 2, "the holder's node and a new one: {left:?}");
    assert!(left.iter().filter(|name| names.contains(name)).count() == 1, "{names:?}, then {left:?}");
    node.leave().await.unwrap();
    held.leave().await.unwrap();
}
