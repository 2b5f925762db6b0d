use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// On a new connection the crate sets all watches again, beyond 128 KiB of paths in several messages under
/// one number. It takes the second answer for an answer to no request, and gives up that connection and the
/// next ones until the session has expired.
const ONE_MESSAGE: usize = 128 * 1024;

const DISPENSABLE: usize = ONE_MESSAGE / 2;

#[derive(Default)]
pub(super) struct WatchedBytes(AtomicUsize);

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
    pub(super) fn dispensable(self: &Arc<Self>, bytes: usize) -> Option<WatchBudget> {
        self.within(DISPENSABLE, bytes)
    }

    pub(super) fn needed(self: &Arc<Self>, bytes: usize) -> Option<WatchBudget> {
        self.within(ONE_MESSAGE, bytes)
    }

    fn within(self: &Arc<Self>, limit: usize, bytes: usize) -> Option<WatchBudget> {
        let fits = |now| Some(now + bytes).filter(|&then| then <= limit);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(WatchBudget { of: Arc::clone(self), bytes })
    }

    /// Counts a watch even beyond the limit.
    pub(super) fn armed(self: &Arc<Self>, bytes: usize) -> WatchBudget {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        WatchBudget { of: Arc::clone(self), bytes }
    }

    pub(super) fn is_zero(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}
