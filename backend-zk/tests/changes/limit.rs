//! Another limit.

use super::{listed, names, waits};
use crate::common::{
    address, admitted, backend, config, join, promptly, server, still_waits, stranger, waiting,
};
use latchwork_core::contracts::{Join, Limit};
use latchwork_core::decide::Claim::Permits;
use latchwork_core::{ErrorKind, Kind};
use zookeeper_client::EventType;

#[tokio::test]
async fn a_raised_limit_admits_at_once_and_down_the_queue() {
    let addr = server().await.addr();
    let config = config(addr);
    let queue = address(&config, Kind::Semaphore, "a");
    let backend = backend(&config).await;
    assert_eq!(backend.limit(&queue).await.unwrap(), None);
    backend.set_limit(&queue, 1).await.unwrap();
    assert_eq!(backend.limit(&queue).await.unwrap(), Some(1));
    let request = || Join { limit: Limit::Stored, ..join(&queue, Permits(1)) };
    let holder = admitted(backend.join(&request()).await);
    let [head, next, last] = [
        waiting(backend.join(&request()).await),
        waiting(backend.join(&request()).await),
        waiting(backend.join(&request()).await),
    ];
    let [head_waits, next_waits, last_waits] = [&head, &next, &last].map(waits);
    assert!(still_waits(&backend, &queue, head.admitted()).await);
    backend.set_limit(&queue, 2).await.unwrap();
    promptly(head_waits).await.unwrap().unwrap();
    assert!(still_waits(&backend, &queue, next.admitted()).await);
    backend.set_limit(&queue, 4).await.unwrap();
    promptly(next_waits).await.unwrap().unwrap();
    promptly(last_waits).await.unwrap().unwrap();
    for node in [holder, head, next, last] {
        node.leave().await.unwrap();
    }
    let stranger = stranger(addr).await;
    assert!(names(&stranger, &config, Kind::Semaphore).await.is_empty());
    let limits = stranger.list_children(&format!("/{}/limits", config.namespace)).await.unwrap();
    assert_eq!(limits, ["a"]);
}

#[tokio::test]
async fn a_lowered_limit_revokes_nobody_and_admits_nobody_until_the_sum_fits() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Semaphore, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let with = |limit: Limit, weight: u32| Join { limit, ..join(&queue, Permits(weight)) };
    let two = admitted(one.join(&with(Limit::Exactly(3), 2)).await);
    let single = admitted(other.join(&with(Limit::Stored, 1)).await);
    other.set_limit(&queue, 2).await.unwrap();
    assert_eq!(one.join(&with(Limit::Exactly(3), 1)).await.unwrap_err().kind(), ErrorKind::Conflict);
    let next = waiting(one.join(&with(Limit::Exactly(2), 1)).await);
    let last = waiting(other.join(&with(Limit::Stored, 1)).await);
    let [next_waits, last_waits] = [&next, &last].map(waits);
    assert!(still_waits(&one, &queue, next.admitted()).await);
    single.leave().await.unwrap();
    assert!(still_waits(&one, &queue, next.admitted()).await, "the first alone takes all of it");
    assert_eq!((two.state().lost(), single.state().lost()), (None, None));
    two.leave().await.unwrap();
    promptly(next_waits).await.unwrap().unwrap();
    promptly(last_waits).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_waiter_that_does_not_fit_any_more_gives_up_promptly_and_those_behind_get_on() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::Semaphore, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let with = |weight: u32| Join { limit: Limit::Exactly(3), ..join(&queue, Permits(weight)) };
    let holder = admitted(one.join(&with(1)).await);
    let unfit = waiting(other.join(&with(3)).await);
    let unfit_too = waiting(one.join(&with(3)).await);
    let fit = waiting(other.join(&with(1)).await);
    let [gives_up, gives_up_too, gets_on] = [&unfit, &unfit_too, &fit].map(waits);
    assert!(still_waits(&one, &queue, unfit.admitted()).await);
    one.set_limit(&queue, 2).await.unwrap();
    for (node, gives_up) in [(unfit, gives_up), (unfit_too, gives_up_too)] {
        let error = promptly(gives_up).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        assert!(error.to_string().contains("was set to 2"), "{error}");
        // Core does the same.
        node.leave().await.unwrap();
    }
    promptly(gets_on).await.unwrap().unwrap();
    assert_eq!(listed(&one, &queue).await.len(), 2);
    for node in [holder, fit] {
        node.leave().await.unwrap();
    }
}

/// Its first look is that of its join. It then stands behind a few holders, which it watches one by
/// one, or behind more.
#[tokio::test]
async fn a_limit_that_is_set_between_the_look_and_the_arming_admits_the_head() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    for holders in [1, 5] {
        let queue = address(&config, Kind::Semaphore, if holders == 1 { "few" } else { "many" });
        let with = |limit| Join { limit, ..join(&queue, Permits(1)) };
        let mut held = Vec::new();
        for _ in 0..holders {
            held.push(admitted(backend.join(&with(Limit::Exactly(holders))).await));
        }
        let head = waiting(backend.join(&with(Limit::Stored)).await);
        backend.set_limit(&queue, holders + 1).await.unwrap();
        promptly(head.admitted()).await.unwrap();
        assert!(held.iter().all(|node| node.state().lost().is_none()));
    }
}

#[tokio::test]
async fn a_limit_that_is_set_and_set_back_has_the_holders_marked() {
    let addr = server().await.addr();
    let config = config(addr);
    let (backend, stranger) = (backend(&config).await, stranger(addr).await);
    let queue = address(&config, Kind::Semaphore, "a");
    let with = |limit| Join { limit, ..join(&queue, Permits(1)) };
    // The join that stores it is marked at once: others cannot know by which limit it was admitted.
    admitted(backend.join(&with(Limit::Exactly(2))).await).leave().await.unwrap();
    let holder = admitted(backend.join(&with(Limit::Exactly(2))).await);
    let path =
        format!("/{}/semaphore/a/{}", config.namespace, names(&stranger, &config, Kind::Semaphore).await[0]);
    let (before, _, marked) = stranger.get_and_watch_data(&path).await.unwrap();
    // Usually before the holder watches the limit, which it does after a while.
    backend.set_limit(&queue, 1).await.unwrap();
    backend.set_limit(&queue, 2).await.unwrap();
    assert_eq!(promptly(marked.changed()).await.event_type, EventType::NodeDataChanged);
    assert_ne!(stranger.get_data(&path).await.unwrap().0, before);
    holder.leave().await.unwrap();
}
