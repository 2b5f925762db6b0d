//! All facts about the server that a client talks to.

use std::collections::BTreeSet;

use serde::Serialize;

use super::clock_difference::ClockDifference;
use super::fact::Fact;
use super::storage::{MemoryPolicy, Persistence};
use super::topology::{Role, Topology};

/// What the server that a client talks to says of itself, when it is asked
/// ([`Coordinator::server_facts`](crate::Coordinator::server_facts)). For people who look for a fault:
/// no acquisition depends on any of it.
///
/// Of a Redis Cluster it is about all masters: their versions, the largest difference of a clock, the
/// worst that one does with its memory and its disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// What it is: `Redis`, `Valkey`, `ZooKeeper`, `etcd`.
    pub product: String,
    /// Its version. Servers of different versions are all named.
    pub version: Fact<String>,
    /// Which servers make up the coordinator.
    pub topology: Fact<Topology>,
    /// What the server that answers is among them.
    pub role: Fact<Role>,
    /// How far its clock is from ours.
    pub clock: Fact<ClockDifference>,
    /// What it does when its memory is full.
    pub memory: Fact<MemoryPolicy>,
    /// What it keeps on disk.
    pub persistence: Fact<Persistence>,
}

impl ServerFacts {
    /// A server of which nothing else is known. For backends, which then set what they learn.
    pub fn of(product: impl Into<String>) -> Self {
        const NOTHING: &str = "this backend does not ask for it";
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
    /// The names or versions of several servers as one text, each of them once. For backends.
    pub fn named<'a>(all: impl IntoIterator<Item = &'a str>) -> String {
        let each: BTreeSet<_> = all.into_iter().collect();
        each.into_iter().collect::<Vec<_>>().join(", ")
    }
}
