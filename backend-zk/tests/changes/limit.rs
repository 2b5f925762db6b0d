use super::names;
use crate::common::{address, admitted, backend, config, join, place, promptly, server, waiting};
use latchwork_conformance::actions::in_turn;
use latchwork_core::Claim::Permits;
use latchwork_core::backend::{ExpectedLimit, Join};
use latchwork_core::{Kind, Limit};
use zookeeper_client::EventType;

#[tokio::test]
async fn a_limit_that_is_set_between_the_look_and_the_arming_admits_the_head() {
    let config = config(server().await.addr());
    let backend = backend(&config).await;
    for holders in [1, 5] {
        let queue = address(&config, Kind::Semaphore, if holders == 1 { "few" } else { "many" });
        let with = |limit| Join { limit, ..join(&queue, Permits(1)) };
        let held =
            in_turn((0..holders).map(async |_| admitted(backend.join(&with(Limit::Exactly(holders))).await)))
                .await;
        let head = waiting(backend.join(&with(Limit::Stored)).await);
        backend.set_limit(&queue, ExpectedLimit::Any, holders + 1).await.unwrap();
        promptly(head.admitted()).await.unwrap();
        assert!(held.iter().all(|node| node.state().lost().is_none()));
    }
}

#[tokio::test]
async fn a_limit_that_is_set_and_set_back_has_the_holders_marked() {
    let (config, backend, stranger) = place().await;
    let queue = address(&config, Kind::Semaphore, "a");
    let with = |limit| Join { limit, ..join(&queue, Permits(1)) };
    // Marked at once, because others cannot know which limit admitted it.
    admitted(backend.join(&with(Limit::Exactly(2))).await).leave().await.unwrap();
    let holder = admitted(backend.join(&with(Limit::Exactly(2))).await);
    let path =
        format!("/{}/semaphore/a/{}", config.namespace, names(&stranger, &config, Kind::Semaphore).await[0]);
    let (before, _, marked) = stranger.get_and_watch_data(&path).await.unwrap();
    // Usually before the holder watches the limit.
    backend.set_limit(&queue, ExpectedLimit::Any, 1).await.unwrap();
    backend.set_limit(&queue, ExpectedLimit::Any, 2).await.unwrap();
    assert_eq!(promptly(marked.changed()).await.event_type, EventType::NodeDataChanged);
    assert_ne!(stranger.get_data(&path).await.unwrap().0, before);
    holder.leave().await.unwrap();
}
