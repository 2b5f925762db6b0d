use latchwork_core::Coordinator;
use latchwork_core::recipes::MutexGuard;
use zookeeper_client::{Acl, Client, Error};

use super::until;

pub(crate) async fn lists(client: &Client, path: &str) -> Vec<(String, Vec<Acl>)> {
    let (mut found, mut open) = (Vec::new(), vec![path.to_owned()]);
    while let Some(path) = open.pop() {
        // Nodes of a queue may disappear.
        let Ok(children) = client.list_children(&path).await else { continue };
        open.extend(children.iter().map(|child| format!("{path}/{child}")));
        match client.get_acl(&path).await {
            Ok((acls, _)) => found.push((path, acls)),
            Err(Error::NoNode) => {}
            Err(error) => panic!("{path} may be read: {error}"),
        }
    }
    found
}

pub(crate) async fn made(client: &Coordinator) -> Vec<Box<dyn std::any::Any>> {
    client.counter("a").unwrap().add(1).await.unwrap();
    client.shared_value("a").unwrap().write(b"value").await.unwrap();
    client.id_generator("a").unwrap().next_id().await.unwrap();
    client.count_down_latch("a", 2).unwrap().count_down().await.unwrap();
    let (barrier, double) = (client.barrier("a", 2).unwrap(), client.double_barrier("a", 2).unwrap());
    let (one, other) = tokio::join!(barrier.wait(), barrier.wait());
    one.and(other).unwrap();
    let (one, other) = tokio::join!(double.enter(), double.enter());
    vec![
        Box::new([one.unwrap(), other.unwrap()]),
        Box::new(handed_on(client).await),
        Box::new(client.rwlock("b").unwrap().write().await.unwrap().downgrade().await.unwrap()),
        Box::new(client.mutex("a").unwrap().acquire().await.unwrap()),
        Box::new(client.semaphore("a", 2).unwrap().acquire(1).await.unwrap()),
        Box::new(client.election("a").unwrap().campaign(b"leader").await.unwrap()),
        Box::new(client.group("a").unwrap().join(b"member").await.unwrap()),
        Box::new(client.rwlock("a").unwrap().read().await.unwrap()),
    ]
}

/// The predecessor had two nodes ahead, so it announces its release.
async fn handed_on(client: &Coordinator) -> MutexGuard {
    let mutex = client.mutex("b").unwrap();
    let mut hold = mutex.acquire().await.unwrap();
    let mut waiting = Vec::new();
    for ahead in 1..4 {
        let behind = mutex.clone();
        waiting.push(tokio::spawn(async move { behind.acquire().await.unwrap() }));
        until(async || mutex.queue().first(10).await.unwrap().len() > ahead).await;
    }
    for next in waiting {
        hold.release().await.unwrap();
        hold = next.await.unwrap();
    }
    hold
}
