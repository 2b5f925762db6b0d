//! The requests of the recipes over cells (counters, values, latches), and of those who watch one.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use async_trait::async_trait;

use super::{Pair, Result, Target};

/// Which write of a cell is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Under the version that it has, or as the server changes a count: an add, a count-down.
    OnVersion,
    /// Whatever it is: a value.
    Anyhow,
}

/// One of those who wait for something, round by round.
#[async_trait]
pub(crate) trait Hear: Send {
    /// Returns when it has heard of this round.
    async fn hear(&mut self, round: u64) -> Result<()>;
}

/// The very request of a write of a cell; `None` for the memory of this process.
#[allow(clippy::unused_async, reason = "a build without servers has nothing to open")]
pub(crate) async fn writing(target: &Target, key: &str, write: Write) -> Result<Option<Box<dyn Pair>>> {
    let _ = (key, write);
    Ok(match target.name() {
        #[cfg(feature = "redis")]
        "redis" => Some(redis::writing(target, key, write).await?),
        #[cfg(feature = "zookeeper")]
        "zookeeper" => Some(zookeeper::writing(target, key, write).await?),
        #[cfg(feature = "etcd")]
        "etcd" => Some(etcd::writing(target, key, write).await?),
        _ => None,
    })
}

/// Redis: `INCRBY`, which counts twice when its reply is lost and it is sent again.
#[allow(clippy::unused_async, reason = "a build without Redis has nothing to open")]
pub(crate) async fn incrementing(target: &Target) -> Result<Option<Box<dyn Pair>>> {
    Ok(match target.name() {
        #[cfg(feature = "redis")]
        "redis" => Some(redis::incrementing(target).await?),
        _ => None,
    })
}

/// One who watches a cell that is written so, on a connection of its own, and reads it after each event.
#[allow(clippy::unused_async, reason = "a build without servers has nothing to open")]
pub(crate) async fn watching(target: &Target, key: &str, write: Write) -> Result<Option<Box<dyn Hear>>> {
    let _ = (key, write);
    Ok(match target.name() {
        #[cfg(feature = "redis")]
        "redis" => Some(redis::watching(target, key, write).await?),
        #[cfg(feature = "zookeeper")]
        "zookeeper" => Some(zookeeper::watching(target, key).await?),
        #[cfg(feature = "etcd")]
        "etcd" => Some(etcd::watching(target, key).await?),
        _ => None,
    })
}
