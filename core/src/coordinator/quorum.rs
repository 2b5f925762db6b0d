use std::time::Duration;

use super::Coordinator;
use crate::error::Result;
use crate::recipes::QuorumLock;

impl QuorumLock {
    /// Makes a lock on a majority of these coordinators: the mutex `key` on each. Checks the arguments,
    /// without I/O.
    ///
    /// # Errors
    /// * `InvalidArgument` (`key`): the key is empty or too long.
    /// * `InvalidArgument` (`members`): the list of coordinators is empty, or their names are too long.
    /// * `InvalidArgument` (`name`): two coordinators have the same [name](crate::Config::name), or one of
    ///   several has no name.
    /// * `InvalidArgument` (`longest_ttl`): it is shorter than the lease of a coordinator.
    /// * `Unsupported`: one of several coordinators takes part in a [move](crate::Move).
    pub fn new(key: &str, of: impl IntoIterator<Item = Coordinator>, longest_ttl: Duration) -> Result<Self> {
        Self::over(mutexes(key, of)?, longest_ttl, true, true)
    }

    /// As [`new`](Self::new), but a server that has forgotten its holds counts at once: for tests.
    #[doc(hidden)]
    pub fn trusting(
        key: &str,
        of: impl IntoIterator<Item = Coordinator>,
        longest_ttl: Duration,
    ) -> Result<Self> {
        Self::over(mutexes(key, of)?, longest_ttl, false, true)
    }

    /// As [`new`](Self::new), but the members may be namespaces of one server: for tests.
    #[doc(hidden)]
    pub fn on_one_server(
        key: &str,
        of: impl IntoIterator<Item = Coordinator>,
        longest_ttl: Duration,
    ) -> Result<Self> {
        Self::over(mutexes(key, of)?, longest_ttl, true, false)
    }
}

fn mutexes(key: &str, of: impl IntoIterator<Item = Coordinator>) -> Result<Vec<crate::recipes::Mutex>> {
    of.into_iter().map(|coordinator| coordinator.mutex(key)).collect()
}
