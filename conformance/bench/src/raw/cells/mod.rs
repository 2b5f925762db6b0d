#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use async_trait::async_trait;

use super::{Pair, Result, Target};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    OnVersion,
    Anyhow,
}

#[async_trait]
pub(crate) trait Hear: Send {
    async fn hear(&mut self, round: u64) -> Result<()>;
}

/// `None` for the store of this process.
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

/// `INCRBY` counts twice if it is sent again after a lost reply.
#[allow(clippy::unused_async, reason = "a build without Redis has nothing to open")]
pub(crate) async fn incrementing(target: &Target) -> Result<Option<Box<dyn Pair>>> {
    Ok(match target.name() {
        #[cfg(feature = "redis")]
        "redis" => Some(redis::incrementing(target).await?),
        _ => None,
    })
}

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
