//! A peer to measure: a library, or raw requests.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Result;

/// The value that a session needs for the release.
pub type Held = Box<dyn Any + Send>;

/// A client with its connection.
#[async_trait]
pub trait Session: Send + Sync + 'static {
    /// Acquires a lock without contention.
    async fn lock(&self, key: &str) -> Result<Held>;
    /// Releases a lock, confirmed by the server.
    async fn unlock(&self, held: Held) -> Result<()>;
    /// Acquires a lock with contention; a raw peer then sends other requests.
    async fn lock_contended(&self, key: &str) -> Result<Held> {
        self.lock(key).await
    }
    async fn unlock_contended(&self, held: Held) -> Result<()> {
        self.unlock(held).await
    }
}

/// A library, or raw requests.
#[async_trait]
pub trait Peer: Send + Sync + 'static {
    fn name(&self) -> &'static str;
    fn version(&self) -> &'static str;
    fn server(&self) -> &'static str;
    async fn open(&self) -> Result<Arc<dyn Session>>;
    /// Creates the data that the server needs before these keys are used.
    async fn prepare(&self, _keys: &[String]) -> Result<()> {
        Ok(())
    }
}
