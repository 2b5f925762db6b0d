//! A release answers what the server reports of its node, not what the client believes.

use crate::common::{address, config, coordinator, holds, server, soon, stranger};
use latchwork_conformance::proxy::Proxy;
use latchwork_core::{Coordinator, ErrorKind, Hold, Kind, LostReason, Release};
use zookeeper_client::Client;

/// ZooKeeper's number of the request that deletes.
const DELETE: i32 = 2;

/// A hold by one of the recipes.
async fn hold(of: &Coordinator, kind: Kind, key: &str) -> Box<dyn Hold> {
    match kind {
        Kind::RwLock => Box::new(soon(of.rwlock(key).unwrap().write()).await.unwrap()),
        Kind::Semaphore => Box::new(soon(of.semaphore(key, 1).unwrap().acquire(1)).await.unwrap()),
        _ => Box::new(soon(of.mutex(key).unwrap().acquire()).await.unwrap()),
    }
}

/// Removes all nodes of a queue, as an operator may.
async fn remove_all(stranger: &Client, directory: &str) {
    for name in stranger.list_children(directory).await.unwrap() {
        stranger.delete(&format!("{directory}/{name}"), None).await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_that_was_removed_is_not_released_though_another_has_held_since() {
    let addr = server().await.addr();
    let (config, stranger) = (config(addr), stranger(addr).await);
    let (one, other) = (coordinator(&config).await, coordinator(&config).await);
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let directory = format!("/{}/{}/a", config.namespace, kind.as_str());
        assert_eq!(address(&config, kind, "a").coded(), "a");
        for round in 0..20 {
            // At once, before the hold is watched.
            let held = hold(&one, kind, "a").await;
            remove_all(&stranger, &directory).await;
            let next = (round % 2 == 0).then(|| hold(&other, kind, "a"));
            let next = match next {
                Some(next) => Some(next.await),
                None => None,
            };
            let answer = soon(held.release()).await.unwrap();
            assert_eq!(answer, Release::AlreadyLost(LostReason::Revoked), "{kind:?}, round {round}");
            // The answer stays the same.
            assert_eq!(soon(held.release()).await.unwrap(), answer);
            if let Some(next) = next {
                assert_eq!(soon(next.release()).await.unwrap(), Release::Released);
            }
        }
    }
}

/// The request was carried out. The next one finds nothing, and cannot know the cause.
#[tokio::test]
async fn a_release_whose_reply_was_lost_is_unknown_and_no_loss() {
    let addr = server().await.addr();
    let (mut through, stranger) = (config(addr), stranger(addr).await);
    let proxy = Proxy::start(addr).await.unwrap();
    through.hosts = vec![proxy.addr().to_string()];
    let client = coordinator(&through).await;
    for kind in [Kind::Mutex, Kind::RwLock, Kind::Semaphore] {
        let held = hold(&client, kind, "a").await;
        let mut lost = proxy.drop_reply_to(|chunk| holds(chunk, DELETE));
        let error = soon(held.release()).await.unwrap_err();
        lost.fired().await.unwrap();
        assert_eq!(*error.kind(), ErrorKind::Unknown, "{error}");
        let directory = format!("/{}/{}/a", through.namespace, kind.as_str());
        assert_eq!(stranger.list_children(&directory).await.unwrap(), [""; 0]);
        // A request that surely did not reach the server does not count.
        let held = hold(&client, kind, "a").await;
        proxy.sever();
        assert_eq!(soon(held.release()).await.unwrap(), Release::Released);
    }
}
