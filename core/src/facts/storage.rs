//! What a server does with its memory and its disk.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// How much a server may keep, and what it does then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryPolicy {
    /// At most so many bytes; `None` for as many as the machine gives.
    pub limit: Option<u64>,
    /// What it does when it has as many.
    pub when_full: WhenFull,
}

/// What a server does when it may keep no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// It refuses writes: nobody acquires any more, and what is held stays.
    RefusesWrites,
    /// It removes what others have stored, by this policy.
    Evicts(String),
}

impl MemoryPolicy {
    /// Whether it may come to evict locks.
    pub fn may_evict(&self) -> bool {
        self.limit.is_some() && matches!(self.when_full, WhenFull::Evicts(_))
    }
}

impl fmt::Display for MemoryPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            None => return f.write_str("no limit but the machine's"),
            Some(limit) => write!(f, "at most {} MiB, then it ", limit >> 20)?,
        }
        match &self.when_full {
            WhenFull::RefusesWrites => f.write_str("refuses writes"),
            WhenFull::Evicts(policy) => write!(f, "evicts ({policy})"),
        }
    }
}

/// What is left of confirmed writes when a server ends without warning, from the safest on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Persistence {
    /// All of them: they are on the disks of a majority, or of the one server, before they are
    /// confirmed.
    BeforeConfirmed,
    /// All but the last ones, of about this time.
    LogBehind(Duration),
    /// All but some of the last ones: there is a log, which the operating system writes when it likes,
    /// or the server does not say when.
    LogSometime,
    /// Those before the last snapshot, if it makes any.
    Snapshots,
    /// None.
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
            Self::Snapshots => f.write_str("no log, and snapshots at most"),
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
