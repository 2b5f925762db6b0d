//! Redis: raw requests, `rslock` and `distributed-lock`.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use distributed_lock_core::{DistributedLock as _, LockError, LockHandle, LockProvider};
use distributed_lock_redis::{RedisLockHandle, RedisLockProvider};
use redis::aio::MultiplexedConnection;

use crate::Result;
use crate::peer::{Held, Peer, Session};
use crate::report::setting;

const TTL: Duration = Duration::from_secs(30);

fn url() -> String {
    setting("REDIS_URL", "")
}

/// The error for a held value of another peer's type.
const FOREIGN: &str = "this was held by another peer";

/// Without contention: `SET NX PX` and a script that compares and deletes. With contention: a list with one
/// token, `BLPOP` and `LPUSH`. This is a limit, not a lock: the token of a dead holder is lost.
pub struct Raw;

struct RawSession {
    connection: MultiplexedConnection,
    compare_and_delete: redis::Script,
}

fn token_list(key: &str) -> String {
    format!("{key}-token")
}

#[async_trait]
impl Peer for Raw {
    fn name(&self) -> &'static str {
        "raw-redis"
    }
    fn version(&self) -> &'static str {
        "redis 1.8.1"
    }
    fn server(&self) -> &'static str {
        "redis"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection =
            redis::Client::open(url())?.get_multiplexed_async_connection_with_config(&config).await?;
        let script =
            "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";
        Ok(Arc::new(RawSession { connection, compare_and_delete: redis::Script::new(script) }))
    }
    async fn prepare(&self, keys: &[String]) -> Result<()> {
        let mut connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
        for key in keys {
            let _: i64 =
                redis::cmd("LPUSH").arg(token_list(key)).arg("token").query_async(&mut connection).await?;
        }
        Ok(())
    }
}

#[async_trait]
impl Session for RawSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        let value = format!("{:032x}", rand::random::<u128>());
        let mut set = redis::cmd("SET");
        set.arg(key).arg(&value).arg("NX").arg("PX").arg(TTL.as_millis() as u64);
        let set: Option<String> = set.query_async(&mut self.connection.clone()).await?;
        set.ok_or("the key is there")?;
        Ok(Box::new((key.to_owned(), value)))
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        let (key, value) = *held.downcast::<(String, String)>().map_err(|_| FOREIGN)?;
        let mut connection = self.connection.clone();
        let deleted: i64 = self.compare_and_delete.key(key).arg(value).invoke_async(&mut connection).await?;
        if deleted == 1 { Ok(()) } else { Err("the key is gone".into()) }
    }
    async fn lock_contended(&self, key: &str) -> Result<Held> {
        let list = token_list(key);
        let mut pop = redis::cmd("BLPOP");
        let _: (String, String) = pop.arg(&list).arg(0).query_async(&mut self.connection.clone()).await?;
        Ok(Box::new(list))
    }
    async fn unlock_contended(&self, held: Held) -> Result<()> {
        let list = *held.downcast::<String>().map_err(|_| FOREIGN)?;
        let mut push = redis::cmd("LPUSH");
        let _: i64 = push.arg(&list).arg("token").query_async(&mut self.connection.clone()).await?;
        Ok(())
    }
}

/// Its `acquire` tries again after a random time of up to 200 ms.
pub struct RsLock;

struct RsLockSession(rslock::LockManager);

#[async_trait]
impl Peer for RsLock {
    fn name(&self) -> &'static str {
        "rslock"
    }
    fn version(&self) -> &'static str {
        "0.10.0"
    }
    fn server(&self) -> &'static str {
        "redis"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        Ok(Arc::new(RsLockSession(rslock::LockManager::new(vec![url()]))))
    }
}

#[async_trait]
impl Session for RsLockSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        Ok(Box::new(self.0.acquire(key, TTL).await.map_err(|error| error.to_string())?))
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        held.downcast::<rslock::LockGuard>().map_err(|_| FOREIGN)?.release().await;
        Ok(())
    }
}

/// Its `acquire` does not wait on one server, so it is called again after 10 ms.
pub struct DistributedLock;

struct DistributedLockSession(RedisLockProvider);

#[async_trait]
impl Peer for DistributedLock {
    fn name(&self) -> &'static str {
        "distributed-lock"
    }
    fn version(&self) -> &'static str {
        "0.2.0"
    }
    fn server(&self) -> &'static str {
        "redis"
    }
    async fn open(&self) -> Result<Arc<dyn Session>> {
        let provider = RedisLockProvider::new(url()).await.map_err(|error| error.to_string())?;
        Ok(Arc::new(DistributedLockSession(provider)))
    }
}

#[async_trait]
impl Session for DistributedLockSession {
    async fn lock(&self, key: &str) -> Result<Held> {
        const AGAIN: Duration = Duration::from_millis(10);
        let lock = self.0.create_lock(key);
        loop {
            match lock.acquire(None).await {
                Ok(handle) => return Ok(Box::new(handle)),
                Err(LockError::Timeout(_)) => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(error.to_string().into()),
            }
        }
    }
    async fn unlock(&self, held: Held) -> Result<()> {
        let handle = held.downcast::<RedisLockHandle>().map_err(|_| FOREIGN)?;
        Ok(handle.release().await.map_err(|error| error.to_string())?)
    }
}
