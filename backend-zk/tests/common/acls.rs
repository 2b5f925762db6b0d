//! Whom nodes belong to.

use latchwork_core::Coordinator;
use zookeeper_client::{Acl, Client};

/// Each node below a path with its list, and the path itself.
pub(crate) async fn lists(client: &Client, path: &str) -> Vec<(String, Vec<Acl>)> {
    let (mut found, mut open) = (Vec::new(), vec![path.to_owned()]);
    while let Some(path) = open.pop() {
        // Nodes of a queue come and go.
        let Ok(children) = client.list_children(&path).await else { continue };
        open.extend(children.iter().map(|child| format!("{path}/{child}")));
        let (acls, _) = client.get_acl(&path).await.expect("it is there, and may be read");
        found.push((path, acls));
    }
    found
}

/// Makes a node of every kind of place, and answers what holds them.
pub(crate) async fn made(client: &Coordinator) -> Vec<Box<dyn std::any::Any>> {
    client.counter("a").unwrap().add(1).await.unwrap();
    vec![
        Box::new(client.mutex("a").unwrap().acquire().await.unwrap()),
        Box::new(client.semaphore("a", 2).unwrap().acquire(1).await.unwrap()),
        Box::new(client.election("a").unwrap().campaign(b"leader").await.unwrap()),
        Box::new(client.group("a").unwrap().join(b"member").await.unwrap()),
        Box::new(client.rwlock("a").unwrap().read().await.unwrap()),
    ]
}
