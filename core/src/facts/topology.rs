//! Which servers make up a coordinator.

use std::fmt;

use serde::Serialize;

/// The servers of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// No server: it lives in this process.
    InProcess,
    /// One server, and no copy of it.
    Alone,
    /// A server that others copy (Redis).
    Primary {
        /// How many copy it now.
        replicas: u32,
        /// Whether the client asks Sentinels which server it is, and so follows a failover.
        watched: bool,
    },
    /// Several servers with a part of the keys each (Redis Cluster).
    Cluster {
        /// Those that have keys.
        masters: u32,
        /// Their copies, all together.
        replicas: u32,
    },
    /// Servers that agree by majority (ZooKeeper, etcd).
    Ensemble {
        /// Those that vote.
        voters: u32,
        /// Those that only follow: observers, learners.
        others: u32,
    },
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |number: u32, one: &str| match number {
            1 => format!("1 {one}"),
            _ => format!("{number} {one}s"),
        };
        match *self {
            Self::InProcess => f.write_str("no server: it lives in this process"),
            Self::Alone => f.write_str("one server alone"),
            Self::Primary { replicas, watched } => {
                let sentinels = if watched { ", found through Sentinels" } else { "" };
                write!(f, "a primary with {}{sentinels}", count(replicas, "replica"))
            }
            Self::Cluster { masters, replicas } => {
                write!(f, "a cluster of {} with {}", count(masters, "master"), count(replicas, "replica"))
            }
            Self::Ensemble { voters, others: 0 } => write!(f, "an ensemble of {}", count(voters, "voter")),
            Self::Ensemble { voters, others } => {
                let others = count(others, "other");
                write!(f, "an ensemble of {} and {others} that follow", count(voters, "voter"))
            }
        }
    }
}

/// What a server is among those of its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The only one.
    Alone,
    /// It has the keys, and others may copy it (Redis).
    Primary,
    /// It leads the others.
    Leader,
    /// It votes, and another leads.
    Follower,
    /// It follows, and does not vote (ZooKeeper).
    Observer,
    /// It follows, and does not vote yet (etcd).
    Learner,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Alone => "the only server",
            Self::Primary => "primary",
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Observer => "observer",
            Self::Learner => "learner",
        })
    }
}
