use std::collections::BTreeSet;

use serde::Serialize;

use super::clock_difference::ClockDifference;
use super::fact::Fact;
use super::storage::{MemoryPolicy, Persistence};
use super::topology::{Role, Topology};

/// Facts that a server reports about itself
/// ([`Coordinator::server_facts`](crate::Coordinator::server_facts)).
///
/// For a Redis Cluster they cover all masters: all versions, the largest clock difference, the worst memory
/// policy and persistence.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The product: `Redis`, `Valkey`, `ZooKeeper` or `etcd`.
    pub product: String,
    /// The version; if servers differ, all versions.
    pub version: Fact<String>,
    /// The servers of the coordinator.
    pub topology: Fact<Topology>,
    /// The role of the server that answers.
    pub role: Fact<Role>,
    /// The difference of its clock to the clock of this machine.
    pub clock: Fact<ClockDifference>,
    /// The limit of its memory, and its reaction to full memory.
    pub memory: Fact<MemoryPolicy>,
    /// The data that it keeps on disk.
    pub persistence: Fact<Persistence>,
}

impl ServerFacts {
    /// Creates facts that are unknown, for a backend to set.
    pub fn of(product: impl Into<String>) -> Self {
        const NOTHING: &str = "this backend does not query this fact";
        Self {
            product: product.into(),
            version: Fact::untold(NOTHING),
            topology: Fact::untold(NOTHING),
            role: Fact::untold(NOTHING),
            clock: Fact::untold(NOTHING),
            memory: Fact::untold(NOTHING),
            persistence: Fact::untold(NOTHING),
        }
    }
    /// Joins the names or versions of several servers into one text, each once. For backends.
    pub fn named<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
        let each: BTreeSet<_> = all.into_iter().collect();
        each.into_iter().collect::<Vec<_>>().join(", ")
    }
}
