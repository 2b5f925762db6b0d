pub(super) mod cells;
#[cfg(feature = "etcd")]
pub(crate) mod etcd;
#[cfg(feature = "redis")]
mod recording;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(feature = "zookeeper")]
pub(crate) mod zookeeper;

use async_trait::async_trait;

use super::Result;
use super::target::Target;

#[async_trait]
pub(super) trait Pair: Send {
    async fn once(&mut self) -> Result<()>;

    async fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

pub(super) struct Subject {
    pub(super) peer: &'static str,
    pub(super) pair: Box<dyn Pair>,
}

/// The requests of a mutex.
pub(super) const SAME: &str = "raw-same";
/// A MultiLock of three mutexes, sent at once.
pub(super) const SAME_OF_THREE: &str = "raw-same-3";
/// Redis: `SET NX PX`, and a script that compares and deletes; for a counter, `INCRBY`.
pub(super) const PLAIN: &str = "raw-plain";
/// To three or five coordinators at once.
pub(super) const TO_THREE: &str = "raw-same-to-3";
pub(super) const TO_FIVE: &str = "raw-same-to-5";
/// ZooKeeper: with the listing of a client that is new to the queue.
pub(super) const LISTED: &str = "raw-listed";

#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
const THREE: [&str; 3] = ["m1-a", "m1-b", "m1-c"];

#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
struct AtOnce(Vec<Box<dyn Pair>>);

#[cfg(any(feature = "redis", feature = "zookeeper", feature = "etcd"))]
#[async_trait]
impl Pair for AtOnce {
    async fn once(&mut self) -> Result<()> {
        futures_util::future::try_join_all(self.0.iter_mut().map(|pair| pair.once())).await.map(drop)
    }

    async fn end(&mut self) -> Result<()> {
        futures_util::future::try_join_all(self.0.iter_mut().map(|pair| pair.end())).await.map(drop)
    }
}

#[allow(clippy::unused_async, reason = "a build without Redis has nothing to open")]
pub(super) async fn at_once(target: &Target, members: usize) -> Result<Option<Subject>> {
    match target.name() {
        #[cfg(feature = "redis")]
        "redis" => redis::at_once(target, members).await.map(Some),
        _ => {
            let _ = members;
            Ok(None)
        }
    }
}

/// The store of this process has none.
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
