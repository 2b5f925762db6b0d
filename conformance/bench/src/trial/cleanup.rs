//! What a run has left in its namespace, taken away again.

use crate::Result;
use crate::target::Target;

impl Target {
    /// Deletes everything in the namespace of this target, and answers how much that was. The namespace
    /// must be its own: whatever is in it goes. The store of this process needs no cleaning.
    ///
    /// # Errors
    /// What the server or the client crate says, also where this build lacks its backend.
    ///
    /// # Cancel safety
    /// Cancelled, a part is deleted; it can be called again.
    #[allow(clippy::unused_async, reason = "a build without servers has nothing to clean")]
    pub async fn clean(&self) -> Result<usize> {
        match self.name() {
            "memory" => Ok(0),
            #[cfg(feature = "redis")]
            "redis" => redis(self).await,
            #[cfg(feature = "zookeeper")]
            "zookeeper" => zookeeper(self).await,
            #[cfg(feature = "etcd")]
            "etcd" => etcd(self).await,
            name => Err(format!("this build has no {name}").into()),
        }
    }
}

/// How many keys are deleted in one request, so that others of the server need not wait for long.
#[cfg(feature = "redis")]
const AT_ONCE: usize = 100;

#[cfg(feature = "redis")]
async fn redis(target: &Target) -> Result<usize> {
    use redis::AsyncCommands;

    let client = crate::raw::redis::client(target)?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let pattern = format!("{}:*", target.config().namespace);
    let mut keys = Vec::new();
    let mut found = connection.scan_match::<_, Vec<u8>>(&pattern).await?;
    while let Some(key) = found.next_item().await {
        keys.push(key?);
    }
    drop(found);
    for some in keys.chunks(AT_ONCE) {
        connection.unlink::<_, ()>(some).await?;
    }
    Ok(keys.len())
}

#[cfg(feature = "zookeeper")]
async fn zookeeper(target: &Target) -> Result<usize> {
    use zookeeper_client::Error;

    let client = crate::raw::zookeeper::client(target).await?;
    let chroot = match target.config().path.as_str() {
        "" => String::new(),
        path => format!("/{path}"),
    };
    // Parents first; each goes when its children are gone.
    let mut nodes = vec![format!("{chroot}/{}", target.config().namespace)];
    let mut next = 0;
    while let Some(node) = nodes.get(next).cloned() {
        match client.list_children(&node).await {
            Ok(children) => nodes.extend(children.into_iter().map(|child| format!("{node}/{child}"))),
            // The server itself removes empty containers, and what was ephemeral.
            Err(Error::NoNode) => {}
            Err(error) => return Err(error.into()),
        }
        next += 1;
    }
    for node in nodes.iter().rev() {
        match client.delete(node, None).await {
            Ok(()) | Err(Error::NoNode) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(nodes.len())
}

#[cfg(feature = "etcd")]
async fn etcd(target: &Target) -> Result<usize> {
    use etcd_client::DeleteOptions;

    let mut client = crate::raw::etcd::client(target).await?;
    let prefix = format!("{}/", target.config().namespace);
    let deleted = client.delete(prefix, Some(DeleteOptions::new().with_prefix())).await?;
    Ok(usize::try_from(deleted.deleted())?)
}
