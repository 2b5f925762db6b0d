//! The kinds of nodes.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, CreateOptions};

/// The kind of a node to create.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeMode {
    Persistent,
    /// Removed by the server a minute after its last child.
    Container,
    /// Removed with the session.
    Ephemeral,
    /// The server removes it when it is this old. Only for servers with such nodes.
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
