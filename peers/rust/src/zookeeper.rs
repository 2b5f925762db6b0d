//! ZooKeeper: raw requests, and the lock of the crate `zookeeper-client`.

use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zookeeper_client::{Acls, Client, CreateMode, LockPrefix, OwnedLockClient};

use crate::Result;
use crate::peer::{Held, Peer, Session};
use crate::report::setting;

const TTL: Duration = Duration::from_secs(30);

async fn connect() -> Result<Client> {
    Ok(Client::connector().with_session_timeout(TTL).connect(&setting("ZK_ADDR", "")).await?)
}

async fn make_queues(keys: &[String]) -> Result<()> {
    let client = connect().await?;
    for key in keys {
        client.mkdir(&format!("/{key}"), &CreateMode::Persistent.with_acls(Acls::anyone_all())).await?;
    }
    Ok(())
}

/// A create and a listing that are sent together, a watch on the node before, and a delete. A limit: it
/// assumes that no client leaves the queue while it waits.
pub struct Raw;

struct RawSession(Client);

#[async_trait]
impl Peer for Raw {
    fn name(&self) -> &'static str {
        "raw-zookeeper"
    }
    fn version(&self) -> &'static str {
        "0.11.2"
    }
    fn server(&self) -> &'static str {
        "zookeeper"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        Ok(Arc::new(RawSession(connect().await?)))
    }
    async fn prepare(&self, keys: &[String]) -> Result<()> {
        make_queues(keys).await
    }
}

#[async_trait]
impl Session for RawSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        let queue = format!("/{key}");
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let prefix = format!("{queue}/lock-");
        let (created, children) =
            futures::try_join!(self.0.create(&prefix, b"", &options), self.0.list_children(&queue))?;
        let name = format!("lock-{}", created.1);
        if let Some(before) = children.iter().filter(|child| **child < name).max() {
            let (stat, watcher) = self.0.check_and_watch_stat(&format!("{queue}/{before}")).await?;
            if stat.is_some() {
                watcher.changed().await;
            }
        }
        Ok(Box::new(format!("{queue}/{name}")))
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        let path = *held.downcast::<String>().map_err(|_| "this was held by another peer")?;
        Ok(self.0.delete(&path, None).await?)
    }
}

/// The crate's own lock. Its guard deletes in the background; this program awaits the delete, to measure a
/// whole pair.
pub struct OfClient;

struct OfClientSession(Client);

#[async_trait]
impl Peer for OfClient {
    fn name(&self) -> &'static str {
        "zookeeper-client"
    }
    fn version(&self) -> &'static str {
        "0.11.2"
    }
    fn server(&self) -> &'static str {
        "zookeeper"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        Ok(Arc::new(OfClientSession(connect().await?)))
    }
    async fn prepare(&self, keys: &[String]) -> Result<()> {
        make_queues(keys).await
    }
}

#[async_trait]
impl Session for OfClientSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        let queue = format!("/{key}");
        let prefix = LockPrefix::new_curator(&queue, "lock-")?;
        Ok(Box::new(self.0.lock(prefix, b"", Acls::anyone_all()).await?.into_owned()))
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        let lock = *held.downcast::<OwnedLockClient>().map_err(|_| "this was held by another peer")?;
        let path = lock.lock_path().to_owned();
        // A drop would delete a second time.
        let _kept = ManuallyDrop::new(lock);
        Ok(self.0.delete(&path, None).await?)
    }
}
