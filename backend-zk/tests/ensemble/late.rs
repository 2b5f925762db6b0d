//! A client does not trust a deposed leader.

use crate::common::{ALL, address, admitted, backend, beside_others, config, join, soon};
use latchwork_conformance::servers::Ensemble;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Close, KeysWith};
use latchwork_core::{Kind, QueuePrefix};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_without_a_majority_confirms_no_abandon_and_lists_no_values() {
    let _beside = beside_others().await;
    let ensemble = super::to_cut().await;
    let leader = ensemble.leader().await.unwrap();
    let mut config = config(&ensemble.addr(leader));
    // The leader does not notice earlier that it is alone.
    config.request_timeout = Ensemble::SYNC_LIMIT * 2 / 3;
    let backend = backend(&config).await;
    let queue = address(&config, Kind::Mutex, "a");
    let held = admitted(backend.join(&join(&queue, Exclusive)).await);
    let attempt = join(&queue, Exclusive);
    backend.abandon(&attempt).await.unwrap();

    ensemble.cut(leader);
    assert_eq!(backend.list(&queue, ALL).await.unwrap().len(), 1);
    let counters = QueuePrefix::new(&config.namespace, Kind::Counter, "").unwrap();
    let (abandoned, listed) =
        tokio::join!(backend.abandon(&attempt), backend.list_keys(KeysWith::Cell, &counters, None, 9));
    assert!(abandoned.is_err(), "a majority may have carried out what this leader does not know");
    assert!(listed.is_err(), "the same: {listed:?}");

    ensemble.heal();
    ensemble.wait_until_serving(leader).await.unwrap();
    soon(async { while backend.abandon(&attempt).await.is_err() {} }).await;
    held.leave().await.unwrap();
    backend.close(Close::Orderly).await.unwrap();
}
