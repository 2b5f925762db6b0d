use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// The memory limit of a server, and its reaction to full memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPolicy {
    /// The limit in bytes; `None` if only the machine limits it.
    pub limit: Option<u64>,
    /// The reaction at the limit.
    pub when_full: WhenFull,
}

/// The reaction of a server to full memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It refuses writes: no client can acquire, and held locks stay.
    RefusesWrites,
    /// It removes stored keys by this policy.
    Evicts(String),
}

impl MemoryPolicy {
    /// Returns whether the server may evict locks.
    pub fn may_evict(&self) -> bool {
        self.limit.is_some() && matches!(self.when_full, WhenFull::Evicts(_))
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            None => return f.write_str("limited only by the machine"),
            Some(limit) => write!(f, "at most {} MiB, then it ", limit >> 20)?,
        }
        match &self.when_full {
            WhenFull::RefusesWrites => f.write_str("refuses writes"),
            WhenFull::Evicts(policy) => write!(f, "evicts ({policy})"),
        }
    }
}

/// The confirmed writes that survive a crash of the server. The order begins with the safest setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Persistence {
    /// All writes: each is on the disks of a majority, or of the single server, before it is confirmed.
    BeforeConfirmed,
    /// All writes except the writes of about this last time.
    LogBehind(Duration),
    /// All writes except some of the last: the operating system decides when the log is written, or the
    /// setting is unknown.
    LogSometime,
    /// The writes before the last snapshot, if the server makes snapshots.
    Snapshots,
    /// No writes.
    Nothing,
}

impl fmt::Display for Persistence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BeforeConfirmed => f.write_str("a write is on disk before it is confirmed"),
            Self::LogBehind(time) => {
                write!(f, "a log on disk, which may lack the last {}s", time.as_secs_f64())
            }
            Self::LogSometime => f.write_str("a log on disk, which may lack the last writes"),
            Self::Snapshots => f.write_str("no log, at most snapshots"),
            Self::Nothing => f.write_str("nothing on disk"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_with_a_limit_comes_to_evict() {
        let evicts = || WhenFull::Evicts("allkeys-lru".to_owned());
        for (limit, when_full, may) in
            [(None, evicts(), false), (Some(1), evicts(), true), (Some(1), WhenFull::RefusesWrites, false)]
        {
            let policy = MemoryPolicy { limit, when_full };
            assert_eq!(policy.may_evict(), may, "{policy}");
        }
    }

    #[test]
    fn the_worst_of_several_servers_is_the_greatest() {
        use Persistence::{BeforeConfirmed, LogBehind, LogSometime, Nothing, Snapshots};
        let ranked = [BeforeConfirmed, LogBehind(Duration::from_secs(1)), LogSometime, Snapshots, Nothing];
        assert!(ranked.is_sorted());
    }
}
