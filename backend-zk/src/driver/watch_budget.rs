//! The limit of the watches of one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of watched paths that the client crate can send in one message. On a new connection the crate sets
/// all watches again, if needed in several messages. It sends the second before the first is answered, under
/// the same number. The first answer settles both, so the crate takes the second for an answer to no request.
/// It gives that connection up, and the next one too, until the session has expired.
const ONE_MESSAGE: usize = 128 * 1024;

/// The part of the limit for watches with a substitute.
const DISPENSABLE: usize = ONE_MESSAGE / 2;

/// The bytes of all paths that a session watches or is about to watch. A path counts once for each of its
/// watches.
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
    /// Returns the budget for a watch with a substitute, which is to read again from time to time.
    pub(super) fn dispensable(self: &Arc<Self>, bytes: usize) -> Option<WatchBudget> {
        self.within(DISPENSABLE, bytes)
    }

    /// Returns the budget for watches without a substitute.
    pub(super) fn needed(self: &Arc<Self>, bytes: usize) -> Option<WatchBudget> {
        self.within(ONE_MESSAGE, bytes)
    }

    fn within(self: &Arc<Self>, limit: usize, bytes: usize) -> Option<WatchBudget> {
        let fits = |now| Some(now + bytes).filter(|&then| then <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(WatchBudget { of: Arc::clone(self), bytes })
    }

    /// Returns the budget of a watch that is set, which counts even beyond the limit.
    pub(super) fn armed(self: &Arc<Self>, bytes: usize) -> WatchBudget {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        WatchBudget { of: Arc::clone(self), bytes }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
