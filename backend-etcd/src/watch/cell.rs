//! The watch of one cell: it stays from its creation until it is dropped or the stream ends.

use std::sync::Arc;

use tokio::sync::watch;

use super::armed::Notify;
use super::watches::Watches;
use crate::driver::EventKind;

/// One watcher of one key. Dropping it stops the watch on the server.
pub(crate) struct CellSubscription {
    news: watch::Receiver<()>,
    watches: Arc<Watches>,
    watch: i64,
}

impl CellSubscription {
    /// Waits for news since the call before: the server has created the watch, or the key was
    /// written or deleted. `false`: the watch is over, and may have missed something. Cancel-safe.
    pub(crate) async fn news(&mut self) -> bool {
        self.news.changed().await.is_ok()
    }
}

impl Drop for CellSubscription {
    fn drop(&mut self) {
        // A cell has no other subscriber.
        self.watches.unsubscribe(self.watch, 0);
    }
}

impl Watches {
    /// Watches a key for writes and deletions, from the creation of the watch on.
    pub(crate) fn cell(self: &Arc<Self>, key: &str) -> CellSubscription {
        let (sender, news) = watch::channel(());
        let mut state = self.state.lock();
        // From now on: a start in the past is served late, and its reader reads after the creation.
        let watch = state.watch(key.as_bytes().into(), false, 0, EventKind::Both);
        let watch = self.arm(&mut state, watch, Notify::Cell(sender));
        CellSubscription { news, watches: Arc::clone(self), watch }
    }
}
