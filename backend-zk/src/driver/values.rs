//! Values of requests and replies.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, CreateOptions};

/// The part of a node's stat that is used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stat {
    /// The transaction that made it.
    pub(crate) czxid: i64,
    /// The transaction that last wrote it.
    pub(crate) mzxid: i64,
    /// The session it hangs on.
    pub(crate) owner: i64,
    /// When it was made and last written, by the server's clock, in milliseconds.
    pub(crate) ctime: i64,
    pub(crate) mtime: i64,
}

impl From<zookeeper_client::Stat> for Stat {
    fn from(stat: zookeeper_client::Stat) -> Self {
        Self {
            czxid: stat.czxid,
            mzxid: stat.mzxid,
            owner: stat.ephemeral_owner,
            ctime: stat.ctime,
            mtime: stat.mtime,
        }
    }
}

/// The part of a stat that the versions of cells are made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellStat {
    /// The transaction that last wrote the node.
    pub(crate) mzxid: i64,
    /// How often it was written since it was made. It wraps.
    pub(crate) version: i32,
    /// The session it hangs on.
    pub(crate) owner: i64,
    /// The transaction that last made or removed a child of it, or made it.
    pub(crate) pzxid: i64,
}

impl From<zookeeper_client::Stat> for CellStat {
    fn from(stat: zookeeper_client::Stat) -> Self {
        let zookeeper_client::Stat { mzxid, pzxid, version, ephemeral_owner: owner, .. } = stat;
        Self { mzxid, version, owner, pzxid }
    }
}

/// The kind of a node to create.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeMode {
    Persistent,
    /// Removed by the server a minute after its last child.
    Container,
    /// Removed with the session.
    Ephemeral,
    /// Removed by the server when it is so old. For servers that have such nodes.
    Lives(Duration),
}

impl NodeMode {
    /// The options of a creation, with these access rights.
    pub(super) fn options(self, acls: Acls<'_>) -> CreateOptions<'_> {
        match self {
            NodeMode::Persistent => CreateMode::Persistent.with_acls(acls),
            NodeMode::Container => CreateMode::Container.with_acls(acls),
            NodeMode::Ephemeral => CreateMode::Ephemeral.with_acls(acls),
            NodeMode::Lives(time) => CreateMode::Persistent.with_acls(acls).with_ttl(time),
        }
    }
}
