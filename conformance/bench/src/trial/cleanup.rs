//! What a run has left in its namespace, taken away again.

use crate::Result;
use crate::target::Target;

impl Target {
    /// Deletes everything in the namespace of this target, on each of its servers, and answers how much
    /// that was. The namespace must be its own: whatever is in it goes. The store of this process needs
    /// no cleaning.
    ///
    /// # Errors
    /// What the server says, also where this build lacks its backend.
    ///
    /// # Cancel safety
    /// Cancelled, a part is deleted; it can be called again.
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
