//! What is measured: a library, or raw requests.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use crate::Result;

/// What a session needs to release.
pub type Held = Box<dyn Any + Send>;

/// A client with its connection.
#[async_trait]
pub trait Session: Send + Sync + 'static {
    /// Acquires a lock that nobody contends for.
    async fn lock(&self, key: &str) -> Result<Held>;
    /// Releases it, confirmed by the server.
    async fn unlock(&self, held: Held) -> Result<()>;
    /// Acquires a lock that others contend for; a raw peer sends other requests then.
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
    /// Makes what must be on the server before these keys are used.
    async fn prepare(&self, _keys: &[String]) -> Result<()> {
        Ok(())
    }
}
