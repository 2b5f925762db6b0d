use std::sync::Weak;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use crate::queue::{ZkNode, mark_admitted};

const LOOKS_AT_ONCE: usize = 64;

#[derive(Default)]
pub(super) struct Unwatched(Mutex<Vec<Look>>);

struct Look {
    node: Weak<ZkNode>,
    limit_written: Option<i64>,
}

impl Unwatched {
    pub(super) fn add(&self, node: Weak<ZkNode>, limit_written: Option<i64>) {
        self.0.lock().push(Look { node, limit_written });
    }

    /// Starts a round every three quarters of a TTL.
    pub(super) async fn look(&self, ttl: Duration) {
        let mut due = tokio::time::interval(ttl * 3 / 4);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            due.tick().await;
            let round = std::mem::take(&mut *self.0.lock());
            let mut looks = stream::iter(round).map(Look::at).buffer_unordered(LOOKS_AT_ONCE);
            while let Some(again) = looks.next().await {
                self.0.lock().extend(again);
            }
        }
    }
}

impl Look {
    async fn at(mut self) -> Option<Self> {
        let node = self.node.upgrade().filter(|node| !node.is_leaving())?;
        let driver = node.driver();
        if let Ok(None) = node.at_any_path(|path| async move { driver.stat(&path).await }).await {
            node.removed();
            return None;
        }
        if let (Some(path), Some(written)) = (&node.limit, self.limit_written)
            && let Ok(stat) = driver.stat(path).await
            && stat.is_none_or(|stat| stat.mzxid != written)
        {
            self.limit_written = None;
            drop(node);
            mark_admitted(self.node.clone()).await;
        }
        Some(self)
    }
}
