use std::time::Duration;

use super::through;
use crate::common::{address, admitted, backend, config, join, server, soon, stranger, until, waiting};
use latchwork_conformance::proxy::Direction;
use latchwork_core::Claim::Exclusive;
use latchwork_core::backend::{Close, Joined};
use latchwork_core::{Kind, LeaseState, LostReason};

#[tokio::test(flavor = "multi_thread")]
async fn a_silence_suspends_a_short_lease_before_it_is_lost_and_another_is_admitted() {
    let (proxy, mut config) = through(server().await.addr()).await;
    let mut direct = config.clone();
    direct.hosts = vec![server().await.addr().to_owned()];
    let other = backend(&direct).await;
    // A ninth of the TTL is longer than a pause of the machine.
    config.ttl = Duration::from_secs(20);
    config.options.set("tick", "4s");
    let backend = backend(&config).await;
    let lease = backend.lease();
    let queue = address(&config, Kind::Mutex, "a");
    let _held = admitted(backend.join(&join(&queue, Exclusive)).await);
    let next = waiting(other.join(&join(&queue, Exclusive)).await);
    // Before the third proof, so that the loss comes before the connection is given up.
    lease.clock().sleep_until(lease.opened() + Duration::from_millis(19_400)).await;
    proxy.hold(Direction::ToServer);
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    tokio::select! {
        biased;
        lost = soon(lease.until_lost()) => assert_eq!(lost, LostReason::Expired),
        admitted = next.admitted() => panic!("admitted before the loss: {admitted:?}"),
    }
    soon(next.admitted()).await.unwrap();
    backend.close(Close::Abrupt).await.unwrap();
}

#[tokio::test]
async fn a_clients_node_that_was_deleted_is_made_again_by_its_next_proof() {
    made_again_by_the_next_proof(false).await;
}

#[tokio::test]
async fn a_clients_node_whose_directory_was_deleted_too_is_made_again_by_its_next_proof() {
    made_again_by_the_next_proof(true).await;
}

async fn made_again_by_the_next_proof(with_its_directory: bool) {
    let addr = server().await.addr();
    let (mut config, stranger) = (config(addr), stranger(addr).await);
    config.ttl = Duration::from_secs(12);
    let backend = backend(&config).await;
    let clients = format!("/{}/client", config.namespace);
    let names = stranger.list_children(&clients).await.unwrap();
    let mut deletion = stranger.new_multi_writer();
    deletion.add_delete(&format!("{clients}/{}", names[0]), None).unwrap();
    if with_its_directory {
        deletion.add_delete(&clients, None).unwrap();
    }
    deletion.commit().await.unwrap();
    until(async || stranger.list_children(&clients).await.ok().as_ref() == Some(&names)).await;
    // The margin ends any earlier proof before this.
    assert!(tokio::time::timeout(config.ttl, backend.lease().until_lost()).await.is_err());
    let queue = address(&config, Kind::Mutex, "a");
    assert!(matches!(backend.join(&join(&queue, Exclusive)).await, Ok(Joined::Admitted(_))));
}
