//! Nodes and acts of other programs.

use crate::common::{acquiring_behind, config, coordinator, plant, server, soon, stranger};
use latchwork_core::Key;
use zookeeper_client::CreateMode;

#[tokio::test]
async fn curators_contenders_are_honoured_at_an_exact_address_and_other_children_do_no_harm() {
    let addr = server().await.addr();
    let config = config(addr);
    let stranger = stranger(addr).await;
    let path = format!("/{}-app/locks/invoices", config.namespace);
    let coordinator = coordinator(&config).await;
    let mutex = coordinator.mutex(Key::exact(path.as_str())).unwrap();
    // The directories are made as Curator makes them.
    soon(mutex.acquire()).await.unwrap().release().await.unwrap();
    plant(&stranger, &format!("{path}/note"), CreateMode::Persistent).await;
    let theirs = format!("{path}/_c_53345f98-9423-4e0c-a7b5-9f819e3ec2e1-lock-");
    let foreign = plant(&stranger, &theirs, CreateMode::EphemeralSequential).await;
    assert!(mutex.try_acquire().await.unwrap().is_none());
    let waiting = acquiring_behind(&mutex).await;
    stranger.delete(&foreign, None).await.unwrap();
    let guard = soon(waiting).await.unwrap().unwrap();
    // A Curator behind us sees our node as one of its own.
    let names = stranger.list_children(&path).await.unwrap();
    assert!(names.iter().any(|name| name.starts_with("_c_") && name.contains("-lock-")), "{names:?}");
    guard.release().await.unwrap();
    coordinator.close().await.unwrap();
}
