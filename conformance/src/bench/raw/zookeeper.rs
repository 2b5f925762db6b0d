//! ZooKeeper: a sequential ephemeral node and a listing, pipelined; a delete.

use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::NodeId;
use zookeeper_client::{Acls, Client, CreateMode};

use super::{Pair, Result, SAME, Subject, Target};
use crate::bench::target::NAMESPACE;

pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    let mut connector = Client::connector().with_session_timeout(Duration::from_secs(30));
    if let (Some(user), Some(password)) = (&target.config.user, &target.config.password) {
        connector = connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes());
    }
    let client = connector.connect(target.addr().unwrap_or_default()).await?;
    let queue = format!("/{NAMESPACE}-raw/m1");
    client.mkdir(&queue, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
    let node = format!("{queue}/_c_{}-lock-", NodeId::random().hyphenated());
    Ok(vec![Subject { peer: SAME, pair: Box::new(Same { client, queue, node }) }])
}

struct Same {
    client: Client,
    queue: String,
    node: String,
}

#[async_trait]
impl Pair for Same {
    async fn once(&mut self) -> Result<()> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        // Both are called, and so queued, before the first is awaited.
        let created = self.client.create(&self.node, b"raw", &options);
        let children = self.client.list_children(&self.queue);
        let (_, counter) = created.await?;
        let children = children.await?;
        if children.len() != 1 {
            return Err(format!("the raw queue has {} nodes", children.len()).into());
        }
        Ok(self.client.delete(&format!("{}{counter}", self.node), None).await?)
    }
}
