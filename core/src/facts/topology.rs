use std::fmt;

use serde::Serialize;

/// The servers of a coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Topology {
    /// No server: the coordinator is in this process.
    InProcess,
    /// One server without replicas.
    Alone,
    /// A server with replicas (Redis).
    Primary {
        /// The number of connected replicas.
        replicas: u32,
        /// Whether the client finds the server through Sentinels, and so follows a failover.
        watched: bool,
    },
    /// Several servers with a part of the keys each (Redis Cluster).
    Cluster {
        /// The servers that have keys.
        masters: u32,
        /// The replicas of all masters.
        replicas: u32,
    },
    /// Servers that agree by majority (ZooKeeper, etcd).
    Ensemble {
        /// The members that vote.
        voters: u32,
        /// The members without a vote: observers, learners.
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
            Self::InProcess => f.write_str("no server: the coordinator is in this process"),
            Self::Alone => f.write_str("a single server"),
            Self::Primary { replicas, watched } => {
                let sentinels = if watched { ", found through Sentinels" } else { "" };
                write!(f, "a primary with {}{sentinels}", count(replicas, "replica"))
            }
            Self::Cluster { masters, replicas } => {
                write!(f, "a cluster of {} with {}", count(masters, "master"), count(replicas, "replica"))
            }
            Self::Ensemble { voters, others: 0 } => write!(f, "an ensemble of {}", count(voters, "voter")),
            Self::Ensemble { voters, others } => {
                let others = count(others, "non-voting member");
                write!(f, "an ensemble of {} and {others}", count(voters, "voter"))
            }
        }
    }
}

/// The role of a server in its coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The only server.
    Alone,
    /// The server that accepts writes, possibly with replicas (Redis).
    Primary,
    /// The leader of the ensemble.
    Leader,
    /// A voting member that is not the leader.
    Follower,
    /// A member without a vote (ZooKeeper).
    Observer,
    /// A member without a vote so far (etcd).
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
