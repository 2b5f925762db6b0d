//! The same requests, sent through the client crate alone: what ours are measured against.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use async_trait::async_trait;

use super::Result;
use super::target::Target;

/// Something that is done again and again, and timed.
#[async_trait]
pub(super) trait Pair: Send {
    /// One acquire and release, confirmed by the server.
    async fn once(&mut self) -> Result<()>;

    /// Gives back what would stay on the server.
    async fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// One of those that are timed side by side.
pub(super) struct Subject {
    /// Its name among the peers.
    pub(super) peer: &'static str,
    pub(super) pair: Box<dyn Pair>,
}

/// The very requests of a mutex.
pub(super) const SAME: &str = "raw-same";
/// Redis: `SET NX PX`, and a script that compares and deletes.
pub(super) const PLAIN: &str = "raw-plain";
/// ZooKeeper: the same with the listing that a client needs which was not there a moment ago.
pub(super) const LISTED: &str = "raw-listed";

/// What is sent raw beside the mutex; nothing for the memory of this process.
#[allow(clippy::unused_async, reason = "a build without servers has nothing to open")]
pub(super) async fn subjects(target: &Target) -> Result<Vec<Subject>> {
    match target.name() {
        #[cfg(feature = "redis")]
        "redis" => redis::subjects(target).await,
        #[cfg(feature = "zookeeper")]
        "zookeeper" => zookeeper::subjects(target).await,
        #[cfg(feature = "etcd")]
        "etcd" => etcd::subjects(target).await,
        _ => Ok(Vec::new()),
    }
}
