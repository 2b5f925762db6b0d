use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::well;
use crate::common::request::SET_DATA;
use crate::common::{config, coordinator, holds, soon, try_backend};
use futures_util::future::join_all;
use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_conformance::servers::{ClosedPort, Ensemble};
use latchwork_core::backend::Close;
use latchwork_core::{Config, LeaseState};
use tokio::net::TcpListener;

fn beside(host: &str, ensemble: &Ensemble) -> Config {
    let mut config = config(host);
    config.hosts.extend((0..ensemble.size()).map(|server| ensemble.addr(server)));
    config
}

#[tokio::test]
async fn connect_succeeds_with_a_dead_and_a_live_host() {
    let dead = ClosedPort::take().unwrap();
    let ensemble = well().await;
    let config = beside(&dead.addr().to_string(), &ensemble);
    try_backend(&config).await.unwrap().close(Close::Orderly).await.unwrap();
}

/// The kernel accepts the connection, as with a server that has lost its power.
#[tokio::test]
async fn connect_succeeds_with_a_silent_and_a_live_host() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ensemble = well().await;
    let mut config = beside(&silent.local_addr().unwrap().to_string(), &ensemble);
    config.ttl = Duration::from_secs(30);
    let connects = (0..8).map(|_| try_backend(&config));
    for connected in join_all(connects).await {
        connected.unwrap().close(Close::Orderly).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_survive_a_silent_host_if_another_host_answers() {
    const CLIENTS: usize = 6;
    let ensemble = well().await;
    let addr = ensemble.addr(0);
    let [first, other] = [Proxy::start(&addr).await.unwrap(), Proxy::start(&addr).await.unwrap()];
    let mut config = config(&addr);
    // Three seconds are left after two silences.
    config.ttl = Duration::from_secs(16);
    config.hosts = [&first, &other].map(|proxy| proxy.addr().to_string()).into();
    other.refuse();
    let proofs = AtomicUsize::new(0);
    let mut due = first
        .request(move |chunk| holds(chunk, SET_DATA) && proofs.fetch_add(1, Ordering::Relaxed) == CLIENTS);
    let held = join_all((0..CLIENTS).map(async |number| {
        let client = coordinator(&config).await;
        let hold = soon(client.mutex(number.to_string()).unwrap().acquire()).await.unwrap();
        (client, hold)
    }));
    let held = held.await;
    other.resume();
    // Then the contact from which the deadline counts is oldest.
    soon(due.fired()).await.unwrap();
    first.hold(Direction::ToServer);
    first.hold(Direction::ToClient);
    join_all(held.iter().map(async |(client, hold)| {
        let lease = client.lease();
        soon(lease.changed(LeaseState::Live)).await;
        assert_eq!(soon(lease.changed(LeaseState::Suspended)).await, LeaseState::Live);
        hold.check().unwrap();
    }))
    .await;
    first.resume();
    for (client, _) in held {
        client.close().await.unwrap();
    }
}
