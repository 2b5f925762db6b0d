//! Readers and writers.

use crate::common::{
    address, admitted, backend, config, join, put, server, soon, still_waits, stranger, waiting,
};
use latchwork_core::decide::Claim::{Exclusive, Shared};
use latchwork_core::{Address, Kind};
use zookeeper_client::CreateMode;

#[tokio::test]
async fn readers_share_and_wait_for_the_nearest_earlier_writer() {
    let config = config(server().await.addr());
    let queue = address(&config, Kind::RwLock, "a");
    let (one, other) = (backend(&config).await, backend(&config).await);
    let reader = admitted(one.join(&join(&queue, Shared)).await);
    let beside = admitted(other.join(&join(&queue, Shared)).await);
    let writer = waiting(one.join(&join(&queue, Exclusive)).await);
    let behind = waiting(other.join(&join(&queue, Shared)).await);
    let last = waiting(one.join(&join(&queue, Shared)).await);
    reader.leave().await.unwrap();
    assert!(still_waits(&one, &queue, writer.admitted()).await);
    beside.leave().await.unwrap();
    soon(writer.admitted()).await.unwrap();
    assert!(still_waits(&other, &queue, behind.admitted()).await);
    writer.leave().await.unwrap();
    soon(behind.admitted()).await.unwrap();
    soon(last.admitted()).await.unwrap();
}

#[tokio::test]
async fn a_writer_is_not_admitted_beside_a_downgraded_writer() {
    let addr = server().await.addr();
    let config = config(addr);
    let backend = backend(&config).await;
    let stranger = stranger(addr).await;
    let path = format!("/{}-app/rw", config.namespace);
    put(&stranger, &format!("/{}-app", config.namespace), CreateMode::Container).await;
    put(&stranger, &path, CreateMode::Container).await;
    let id = "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-";
    let writing = put(&stranger, &format!("{path}/{id}__WRIT__"), CreateMode::EphemeralSequential).await;
    let queue = address(&config, Kind::RwLock, Address::exact(path.as_str()));
    let writer = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    // As Curator downgrades: the reader takes the writer's counter, then the writer goes.
    let reading = writing.replace("__WRIT__", "__READ__");
    put(&stranger, &reading, CreateMode::Ephemeral).await;
    stranger.delete(&writing, None).await.unwrap();
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    stranger.delete(&reading, None).await.unwrap();
    soon(writer.admitted()).await.unwrap();
}
