//! Holds without a watch: they are looked at from time to time.

use std::sync::Weak;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{StreamExt, stream};
use parking_lot::Mutex;
use tokio::time::MissedTickBehavior;

use super::held_node::HeldNode;
use crate::driver::Driver;
use crate::error::{Answer, Fault};

/// Looks under way at a time.
const LOOKS_AT_ONCE: usize = 64;

/// The holds that a session has no budget to watch.
#[derive(Default)]
pub(super) struct Unwatched(Mutex<Vec<Look>>);

struct Look {
    node: Weak<dyn HeldNode>,
    /// As in [`NewHolder`](super::NewHolder), until the node was marked.
    limit_written: Option<i64>,
}

impl Unwatched {
    pub(super) fn add(&self, node: Weak<dyn HeldNode>, limit_written: Option<i64>) {
        self.0.lock().push(Look { node, limit_written });
    }

    /// Looks at all of them in each three quarters of a TTL, counted from the begin of a round to
    /// the begin of the next.
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
    /// Looks at one, and answers it if it is to be looked at again.
    async fn at(mut self) -> Option<Self> {
        let node = self.node.upgrade().filter(|node| !node.is_leaving())?;
        // Without an answer the next look shows it, or the lease.
        if let Ok(false) = is_there(&*node).await {
            node.removed();
            return None;
        }
        if let (Some(path), Some(written)) = (node.limit_path(), self.limit_written)
            && let Ok(stat) = node.driver().stat(path).await
            && stat.is_none_or(|stat| stat.mzxid != written)
        {
            self.limit_written = None;
            node.mark_admitted().await;
        }
        Some(self)
    }
}

/// Whether the node is there, under any path that it may have.
async fn is_there(node: &dyn HeldNode) -> Answer<bool> {
    let found = under_any_path(node, |driver, path| {
        async move { driver.stat(&path).await?.ok_or(Fault::NoNode) }.boxed()
    })
    .await;
    match found {
        Err(Fault::NoNode) => Ok(false),
        found => found.map(|_| true),
    }
}

/// Asks for a node by each path that it may have. `NoNode` where it has none of them.
pub(super) async fn under_any_path<T>(
    node: &dyn HeldNode,
    ask: for<'a> fn(&'a Driver, String) -> BoxFuture<'a, Answer<T>>,
) -> Answer<T> {
    loop {
        let paths = node.paths();
        for path in &paths {
            match ask(node.driver(), path.clone()).await {
                Err(Fault::NoNode) => {}
                answer => return answer,
            }
        }
        // A downgrade that began meanwhile may have given it another path.
        if node.paths() == paths {
            return Err(Fault::NoNode);
        }
    }
}
