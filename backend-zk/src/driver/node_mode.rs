use std::time::Duration;

use zookeeper_client::{Acls, CreateMode, CreateOptions};

#[derive(Clone, Copy, Debug)]
pub(crate) enum NodeMode {
    Persistent,
    /// The server removes it a minute after its last child.
    Container,
    Ephemeral,
    /// The server removes it at this age, if it supports this.
    Lives(Duration),
}

impl NodeMode {
    pub(super) fn options(self, acls: Acls<'_>) -> CreateOptions<'_> {
        match self {
            NodeMode::Persistent => CreateMode::Persistent.with_acls(acls),
            NodeMode::Container => CreateMode::Container.with_acls(acls),
            NodeMode::Ephemeral => CreateMode::Ephemeral.with_acls(acls),
            NodeMode::Lives(time) => CreateMode::Persistent.with_acls(acls).with_ttl(time),
        }
    }
}
