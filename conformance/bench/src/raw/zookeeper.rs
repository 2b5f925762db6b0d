use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::NodeId;
use zookeeper_client::{Acls, Client, CreateMode};

use super::{AtOnce, LISTED, Pair, Result, SAME, SAME_OF_THREE, Subject, THREE, Target};
use crate::target::NAMESPACE;

pub(crate) async fn client(target: &Target) -> Result<Client> {
    let mut connector = Client::connector().with_session_timeout(Duration::from_secs(30));
    if let (Some(user), Some(password)) = (&target.config.user, &target.config.password) {
        connector = connector.with_auth("digest", format!("{user}:{}", password.expose()).as_bytes());
    }
    Ok(connector.connect(target.addr().unwrap_or_default()).await?)
}

pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    let client = client(target).await?;
    let mut three: Vec<Box<dyn Pair>> = Vec::new();
    for key in THREE {
        three.push(Box::new(Node::open(&client, key, false).await?));
    }
    Ok(vec![
        Subject { peer: SAME, pair: Box::new(Node::open(&client, "m1", false).await?) },
        Subject { peer: LISTED, pair: Box::new(Node::open(&client, "m1-listed", true).await?) },
        Subject { peer: SAME_OF_THREE, pair: Box::new(AtOnce(three)) },
    ])
}

struct Node {
    client: Client,
    node: String,
    /// Listed in the trip of the create.
    listed: Option<String>,
}

impl Node {
    async fn open(client: &Client, key: &str, listed: bool) -> Result<Self> {
        let queue = format!("/{NAMESPACE}-raw/{key}");
        client.mkdir(&queue, &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
        let node = format!("{queue}/_c_{}-lock-", NodeId::random().hyphenated());
        Ok(Self { client: client.clone(), node, listed: listed.then_some(queue) })
    }
}

#[async_trait]
impl Pair for Node {
    async fn once(&mut self) -> Result<()> {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let created = self.client.create(&self.node, b"raw", &options);
        let children = self.listed.as_ref().map(|queue| self.client.list_children(queue));
        let (_, counter) = created.await?;
        if let Some(children) = children {
            let children = children.await?;
            if children.len() != 1 {
                return Err(format!("the raw queue has {} nodes", children.len()).into());
            }
        }
        Ok(self.client.delete(&format!("{}{counter}", self.node), None).await?)
    }
}
