//! A holder whose follower is cut off gives up before another client is admitted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::to_cut;
use crate::common::{PATIENCE, beside_others, config, try_backend, until};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::Ensemble;
use latchwork_core::backend::{Backend, Close};
use latchwork_core::{Config, Coordinator, Ended, LostReason};
use latchwork_zookeeper::ZooKeeperBackend;
use tokio::net::TcpListener;
use tokio::time::timeout;

async fn two_hold(ensemble: &Ensemble, connect: impl AsyncFn(Config) -> ZooKeeperBackend) -> bool {
    let leader = ensemble.leader().await.unwrap();
    let follower = ensemble.followers().await[0];
    let mut config = config(&ensemble.addr(follower));
    // Nearly half is between a renewal and the deadline from the last one: more than the delay of a busy
    // machine.
    config.ttl = Duration::from_secs(6);
    let holder = Coordinator::new(Arc::new(connect(config.clone()).await) as Arc<dyn Backend>, &config);
    config.hosts = vec![ensemble.addr(leader)];
    let other = crate::common::coordinator(&config).await;

    let held = Arc::new(holder.mutex("a").unwrap().acquire().await.unwrap());
    let waiting = tokio::spawn({
        let (mutex, held) = (other.mutex("a").unwrap(), Arc::clone(&held));
        async move {
            let next = mutex.acquire().await.unwrap();
            (held.is_held(), next)
        }
    });
    until(async || holder.mutex("a").unwrap().queue().first(10).await.unwrap().len() == 2).await;
    // After a TTL, no deadline counts from the creation.
    assert!(timeout(config.ttl, held.lost()).await.is_err(), "healthy");

    ensemble.cut(follower);
    let lost = timeout(PATIENCE, held.lost()).await.expect("the holder is notified of its loss");
    let (two_hold, next) = timeout(PATIENCE, waiting).await.expect("the next waiter is admitted").unwrap();
    assert_eq!(lost, Ended::Lost(LostReason::Expired));
    assert!(next.token() > held.token());
    ensemble.heal();
    ensemble.wait_until_serving(follower).await.unwrap();
    next.release().await.unwrap();
    other.close().await.unwrap();
    holder.close().await.unwrap();
    two_hold
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_at_cut_off_follower_stops_before_next_admission() {
    let _beside = beside_others().await;
    let ensemble = to_cut().await;
    let honest = async |config| ZooKeeperBackend::connect(&config).await.unwrap();
    assert!(!two_hold(&ensemble, honest).await, "two hold");

    let believing = async |config| ZooKeeperBackend::connect_believing_reads(&config).await.unwrap();
    assert!(
        two_hold(&ensemble, believing).await,
        "the test must detect a client whose deadline counts from its last read"
    );
}

/// As during an election. Another host is silent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_waits_until_its_ensemble_has_a_quorum() {
    let _beside = beside_others().await;
    let ensemble = to_cut().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&silent.local_addr().unwrap().to_string());
    config.hosts.extend((0..3).map(|server| ensemble.addr(server)));
    connects_with_the_quorum(&ensemble, config).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_by_tls_waits_until_its_ensemble_has_a_quorum() {
    let _beside = beside_others().await;
    let ensemble = to_cut().await;
    let hosts: Vec<_> = (0..3).map(|server| ensemble.tls_addr(server).unwrap()).collect();
    let url = format!("zookeeper+tls://{}?{}", hosts.join(","), ensemble.certificates.mutual());
    connects_with_the_quorum(&ensemble, url.parse().unwrap()).await;
}

async fn connects_with_the_quorum(ensemble: &Ensemble, mut config: Config) {
    for server in 0..3 {
        ensemble.cut(server);
    }
    for server in 0..3 {
        ensemble.wait_until_not_serving(server).await.unwrap();
    }
    config.connect_timeout = Duration::from_secs(3);
    let started = Instant::now();
    let error = try_backend(&config).await.expect_err("nobody serves");
    assert!(started.elapsed() >= config.connect_timeout, "{:?}: {error}", started.elapsed());
    let page = include_str!("../../../src/guide/connect_errors.md");
    Mistakes::of(page, "## When an ensemble has no quorum")
        .made("most servers of a ZooKeeper ensemble are down, or cut off from each other", &error);

    config.connect_timeout = PATIENCE;
    let connecting = tokio::spawn(async move { try_backend(&config).await });
    ensemble.heal();
    let backend = timeout(PATIENCE * 2, connecting).await.unwrap().unwrap().expect("it connects");
    backend.close(Close::Orderly).await.unwrap();
}
