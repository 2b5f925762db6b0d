use crate::common::{address, join, place, plant, soon, still_waits, waiting};
use latchwork_core::Claim::Exclusive;
use latchwork_core::{Key, Kind};
use zookeeper_client::CreateMode;

#[tokio::test]
async fn writer_waits_for_a_downgraded_writer() {
    let (config, backend, stranger) = place().await;
    let path = format!("/{}-app/rw", config.namespace);
    plant(&stranger, &format!("/{}-app", config.namespace), CreateMode::Container).await;
    plant(&stranger, &path, CreateMode::Container).await;
    let id = "_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-";
    let writing = plant(&stranger, &format!("{path}/{id}__WRIT__"), CreateMode::EphemeralSequential).await;
    let queue = address(&config, Kind::RwLock, Key::exact(path.as_str()));
    let writer = waiting(backend.join(&join(&queue, Exclusive)).await);
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    // By Curator: the reader gets the writer's counter, and then the writer's node is deleted.
    let reading = writing.replace("__WRIT__", "__READ__");
    plant(&stranger, &reading, CreateMode::Ephemeral).await;
    stranger.delete(&writing, None).await.unwrap();
    assert!(still_waits(&backend, &queue, writer.admitted()).await);
    stranger.delete(&reading, None).await.unwrap();
    soon(writer.admitted()).await.unwrap();
}
