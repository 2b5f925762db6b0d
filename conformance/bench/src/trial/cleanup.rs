use crate::Result;
use crate::target::Target;

impl Target {
    /// Deletes the namespace of this target on each of its servers, and returns the number of deleted keys.
    ///
    /// # Errors
    /// An error of the server, or of a build without its backend.
    ///
    /// # Cancel safety
    /// A cancelled call may have deleted a part.
    #[allow(clippy::unused_async, reason = "a build without servers has nothing to clean")]
    pub async fn clean(&self) -> Result<usize> {
        match self.name() {
            "memory" => Ok(0),
            #[cfg(feature = "redis")]
            "redis" => Ok(latchwork_redis::delete_namespace(self.config()).await?),
            #[cfg(feature = "zookeeper")]
            "zookeeper" => Ok(latchwork_zookeeper::delete_namespace(self.config()).await?),
            #[cfg(feature = "etcd")]
            "etcd" => Ok(latchwork_etcd::delete_namespace(self.config()).await?),
            name => Err(format!("this build has no {name}").into()),
        }
    }
}
