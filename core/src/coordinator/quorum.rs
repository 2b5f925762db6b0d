//! A lock on a majority of coordinators.

use std::time::Duration;

use super::Coordinator;
use crate::error::Result;
use crate::recipes::QuorumLock;

impl QuorumLock {
    /// One lock on a majority of these coordinators: the mutex `key` on each. Validates, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`; naming `members` when there is no coordinator, or when their
    /// names are too long to be stored; naming `name` when two coordinators have the same
    /// [name](crate::Config::name), or one of several has none; naming `longest_ttl` when a
    /// coordinator's lease is longer. `Unsupported` when one of several takes part in a
    /// [move](crate::Move).
    pub fn new(key: &str, of: impl IntoIterator<Item = Coordinator>, longest_ttl: Duration) -> Result<Self> {
        Self::over(mutexes(key, of)?, longest_ttl, true)
    }

    /// As [`new`](Self::new), but every server counts, also one that has forgotten its holds: two may hold
    /// at once after a restart. For tests that are to see that.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    #[doc(hidden)]
    pub fn trusting(
        key: &str,
        of: impl IntoIterator<Item = Coordinator>,
        longest_ttl: Duration,
    ) -> Result<Self> {
        Self::over(mutexes(key, of)?, longest_ttl, false)
    }
}

fn mutexes(key: &str, of: impl IntoIterator<Item = Coordinator>) -> Result<Vec<crate::recipes::Mutex>> {
    of.into_iter().map(|coordinator| coordinator.mutex(key)).collect()
}
