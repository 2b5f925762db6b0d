//! etcd: raw requests, and the lock service of the server itself.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use etcd_client::{
    Client, Compare, CompareOp, EventType, GetOptions, LockOptions, PutOptions, SortOrder, SortTarget, Txn,
    TxnOp, TxnOpResponse, WatchFilterType, WatchOptions,
};
use tokio::sync::{Notify, OnceCell};

use crate::Result;
use crate::peer::{Held, Peer, Session};
use crate::report::setting;

/// The TTL of one lease for each client, in seconds. The lease is not renewed, so that no other requests are
/// sent.
const TTL: i64 = 600;
const FOREIGN: &str = "this was held by another peer";

async fn connect() -> Result<(Client, i64)> {
    let mut client = Client::connect([setting("ETCD_URL", "")], None).await?;
    let lease = client.lease_grant(TTL, None).await?.id();
    Ok((client, lease))
}

/// The server's `Lock` and `Unlock`.
pub struct LockService;

struct LockServiceSession {
    client: Client,
    lease: i64,
}

#[async_trait]
impl Peer for LockService {
    fn name(&self) -> &'static str {
        "etcd-lock-api"
    }
    fn version(&self) -> &'static str {
        "etcd-client 0.21.1"
    }
    fn server(&self) -> &'static str {
        "etcd"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        let (client, lease) = connect().await?;
        Ok(Arc::new(LockServiceSession { client, lease }))
    }
}

#[async_trait]
impl Session for LockServiceSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        let options = LockOptions::new().with_lease(self.lease);
        Ok(Box::new(self.client.clone().lock(key, Some(options)).await?.key().to_vec()))
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        let key = *held.downcast::<Vec<u8>>().map_err(|_| FOREIGN)?;
        self.client.clone().unlock(key).await?;
        Ok(())
    }
}

/// A transaction that puts an own key and reads the key before it, a watch on that key, and a delete. A
/// limit: it assumes that no client leaves the queue while it waits.
pub struct Raw {
    /// One watch on the whole queue for the life of the client, instead of one watch for each wait.
    pub one_watch: bool,
}

struct RawSession {
    client: Client,
    lease: i64,
    one_watch: bool,
    deletions: OnceCell<Arc<Deletions>>,
}

#[async_trait]
impl Peer for Raw {
    fn name(&self) -> &'static str {
        if self.one_watch { "raw-etcd-longwatch" } else { "raw-etcd" }
    }
    fn version(&self) -> &'static str {
        "etcd-client 0.21.1"
    }
    fn server(&self) -> &'static str {
        "etcd"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        let (client, lease) = connect().await?;
        Ok(Arc::new(RawSession { client, lease, one_watch: self.one_watch, deletions: OnceCell::new() }))
    }
}

/// The deletions that one watch on a queue has seen, with their revisions.
#[derive(Default)]
struct Deletions {
    seen: Mutex<HashMap<Vec<u8>, i64>>,
    notify: Notify,
}

impl Deletions {
    async fn watch(mut client: Client, queue: String) -> Result<Arc<Self>> {
        let options = WatchOptions::new().with_prefix().with_filters([WatchFilterType::NoPut]);
        let mut stream = client.watch(queue, Some(options)).await?;
        // The watch is created: it shows every deletion from now on.
        stream.message().await?;
        let deletions = Arc::new(Self::default());
        let shared = Arc::clone(&deletions);
        tokio::spawn(async move {
            while let Ok(Some(message)) = stream.message().await {
                let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
                for pair in message.events().iter().filter_map(|event| event.kv()) {
                    seen.insert(pair.key().to_vec(), pair.mod_revision());
                }
                drop(seen);
                shared.notify.notify_waiters();
            }
        });
        Ok(deletions)
    }

    /// Waits until a key that was created at a revision has been deleted.
    async fn deleted(&self, key: &[u8], created: i64) {
        loop {
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
            if seen.is_some_and(|deleted| deleted > created) {
                return;
            }
            notified.await;
        }
    }
}

impl RawSession {
    /// Puts a key. Returns the key before it in the queue, with its create revision.
    async fn join(&self, queue: &str, key: &str) -> Result<Option<(Vec<u8>, i64)>> {
        let last_two = GetOptions::new()
            .with_prefix()
            .with_sort(SortTarget::Create, SortOrder::Descend)
            .with_limit(2)
            .with_keys_only();
        let join = Txn::new().when([Compare::create_revision(key, CompareOp::Equal, 0)]).and_then([
            TxnOp::put(key, "", Some(PutOptions::new().with_lease(self.lease))),
            TxnOp::get(queue, Some(last_two)),
        ]);
        let joined = self.client.clone().txn(join).await?;
        if !joined.succeeded() {
            return Err("the key is there".into());
        }
        Ok(joined.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(found) => {
                let before = found.kvs().iter().find(|pair| pair.key() != key.as_bytes())?;
                Some((before.key().to_vec(), before.create_revision()))
            }
            _ => None,
        }))
    }

    /// Waits with a separate watch. The watch has no start revision, because etcd serves a watch that starts
    /// in the past only every 100 ms. A watch that races with the deletion may be late in the same way, so
    /// the key is read after the watch was created. The same session may have created the key again, so the
    /// revisions are compared.
    async fn wait_for(&self, key: Vec<u8>, created: i64) -> Result<()> {
        let mut client = self.client.clone();
        let options = WatchOptions::new().with_filters([WatchFilterType::NoPut]);
        let mut stream = client.watch(key.clone(), Some(options)).await?;
        let mut message = stream.message().await?.ok_or("the watch ended")?;
        let found = client.get(key, None).await?;
        let gone = found.kvs().first().map(|pair| pair.create_revision()) != Some(created);
        while !gone && !message.events().iter().any(|event| event.event_type() == EventType::Delete) {
            message = stream.message().await?.ok_or("the watch ended")?;
        }
        Ok(())
    }
}

#[async_trait]
impl Session for RawSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        let put = TxnOp::put(key, "", Some(PutOptions::new().with_lease(self.lease)));
        let txn = Txn::new().when([Compare::create_revision(key, CompareOp::Equal, 0)]).and_then([put]);
        if !self.client.clone().txn(txn).await?.succeeded() {
            return Err("the key is there".into());
        }
        Ok(Box::new(key.as_bytes().to_vec()))
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        let key = *held.downcast::<Vec<u8>>().map_err(|_| FOREIGN)?;
        self.client.clone().delete(key, None).await?;
        Ok(())
    }
    async fn lock_contended(&self, key: &str) -> Result<Held> {
        let queue = format!("{key}/");
        let own = format!("{queue}{:x}", self.lease);
        let deletions = match self.one_watch {
            true => Some(
                self.deletions
                    .get_or_try_init(|| Deletions::watch(self.client.clone(), queue.clone()))
                    .await?,
            ),
            false => None,
        };
        match (self.join(&queue, &own).await?, deletions) {
            (Some((before, created)), Some(deletions)) => deletions.deleted(&before, created).await,
            (Some((before, created)), None) => self.wait_for(before, created).await?,
            (None, _) => {}
        }
        Ok(Box::new(own.into_bytes()))
    }
}
