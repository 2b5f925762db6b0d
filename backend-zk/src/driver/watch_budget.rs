//! The bound on what one session watches.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of watched paths that the client crate can send in one message. On a new connection
/// the crate sets all watches again, in several messages if they need it. It sends the second
/// before the first is answered, under the same number. The first answer settles both, so the crate
/// takes the second for an answer to nothing. It gives that connection up, and the next one too,
/// until the session has expired.
const ONE_MESSAGE: usize = 128 * 1024;

/// The part of that for watches with a substitute.
const DISPENSABLE: usize = ONE_MESSAGE / 2;

/// The bytes of the paths that a session watches or is about to watch, each as often as it is
/// watched.
#[derive(Default)]
pub(super) struct WatchedBytes(AtomicUsize);

/// A reserved part of a session's budget for watches, until it is dropped.
pub(crate) struct WatchBudget {
    of: Arc<WatchedBytes>,
    bytes: usize,
}

impl Drop for WatchBudget {
    fn drop(&mut self) {
        self.of.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl WatchedBytes {
    /// Budget for a watch that has a substitute: looking again from time to time.
    pub(super) fn dispensable(self: &Arc<Self>, bytes: usize) -> Option<WatchBudget> {
        self.within(DISPENSABLE, bytes)
    }

    /// Budget for watches that have none.
    pub(super) fn needed(self: &Arc<Self>, bytes: usize) -> Option<WatchBudget> {
        self.within(ONE_MESSAGE, bytes)
    }

    fn within(self: &Arc<Self>, limit: usize, bytes: usize) -> Option<WatchBudget> {
        let fits = |now| Some(now + bytes).filter(|&then| then <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(WatchBudget { of: Arc::clone(self), bytes })
    }

    /// The budget of an armed watch, which counts even beyond the bound.
    pub(super) fn armed(self: &Arc<Self>, bytes: usize) -> WatchBudget {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        WatchBudget { of: Arc::clone(self), bytes }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
