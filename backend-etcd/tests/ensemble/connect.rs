use std::time::{Duration, Instant};

use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::Ensemble;
use latchwork_core::Config;

use crate::common::at;
use crate::connect::refused;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_waits_until_its_cluster_has_a_leader() {
    let cluster = Ensemble::etcd(3).await.unwrap();
    for member in 0..3 {
        cluster.cut(member);
    }
    for member in 0..3 {
        cluster.wait_until_not_serving(member).await.unwrap();
    }
    let hosts: Vec<_> = (0..3).map(|member| cluster.addr(member)).collect();
    let url = |time| format!("etcd://{}?connect_timeout={time}", hosts.join(","));
    let started = Instant::now();
    let error = refused(&url("3s")).await;
    assert!(started.elapsed() >= Duration::from_secs(3), "{:?}: {error}", started.elapsed());
    // The other row is about ZooKeeper.
    let page = include_str!("../../../src/guide/connect_errors.md");
    Mistakes::of(page, "## When an ensemble has no quorum")
        .made("most members of an etcd cluster are down, or cut off from each other", &error);

    let config = Config::from_url(&url("60s")).unwrap();
    let connecting = tokio::spawn(async move { at(&config).await });
    cluster.heal();
    let client = connecting.await.unwrap().expect("it connects");
    client.close().await.unwrap();
}
