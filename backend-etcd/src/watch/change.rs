//! The watch of a cell or of a queue: it stays from its creation until it is dropped or the stream
//! ends.

use std::sync::Arc;

use tokio::sync::watch;

use super::armed::Notify;
use super::watches::Watches;
use crate::driver::EventKind;

/// What is watched for changes.
#[derive(Clone, Debug)]
pub(crate) enum Watched {
    /// One key.
    Key(String),
    /// All keys with this prefix.
    Below(String),
}

impl Watched {
    /// The key, or the prefix.
    pub(super) fn key(&self) -> &str {
        match self {
            Self::Key(key) | Self::Below(key) => key,
        }
    }
}

/// One watcher of changes. Dropping it stops the watch on the server.
pub(super) struct ChangeSubscription {
    news: watch::Receiver<()>,
    watches: Arc<Watches>,
    watch: i64,
}

impl ChangeSubscription {
    /// Waits for news since the call before: the server has created the watch, or a key was written
    /// or deleted. `false`: the watch is over, and may have missed something. Cancel-safe.
    pub(super) async fn news(&mut self) -> bool {
        self.news.changed().await.is_ok()
    }
}

impl Drop for ChangeSubscription {
    fn drop(&mut self) {
        // It is the only subscriber.
        self.watches.unsubscribe(self.watch, 0);
    }
}

impl Watches {
    /// Watches for writes and deletions, from the creation of the watch on.
    pub(super) fn changes(self: &Arc<Self>, of: &Watched) -> ChangeSubscription {
        let (sender, news) = watch::channel(());
        let mut state = self.state.lock();
        let is_prefix = matches!(of, Watched::Below(_));
        // From now on: a start in the past is served late, and its reader reads after the creation.
        let watch = state.watch(of.key().as_bytes().into(), is_prefix, 0, EventKind::Both);
        let watch = self.arm(&mut state, watch, Notify::Change(sender));
        ChangeSubscription { news, watches: Arc::clone(self), watch }
    }
}
