//! The check after an admission by a release notice: the node must be the first of its queue.
//!
//! Any program that may write in the namespace can forge a notice. A hold whose node is not the first is
//! lost, so it admits no node when it leaves. No caller waits for the check.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, Pauses};
use latchwork_core::{Error, seen};

use crate::config::NAME;
use crate::driver::{Driver, Order, StoredKey};
use crate::error::Answer;
use crate::layout::Queue;
use crate::queue::context::NodeContext;
use crate::queue::list::{nodes, whole};
use crate::watch::OwnNode;

const DELAY: Duration = Duration::from_millis(50);
/// More than one: foreign keys may precede the node.
const READ: i64 = 4;

pub(crate) fn verify_in_background(context: &Arc<NodeContext>, own: &Arc<OwnNode>, queue: &Queue) {
    let (context, own, queue) = (Arc::clone(context), Arc::clone(own), queue.clone());
    let runtime = context.leases.runtime.clone();
    runtime.spawn(async move {
        tokio::time::sleep(DELAY).await;
        let mut backoff = Backoff::new(Pauses::OUTAGE);
        while context.watches.is_own(&own) && own.state.lost().is_none() {
            match is_first(&context.driver, &own, &queue).await.map_err(Error::from) {
                Ok(true) => return,
                Ok(false) => {
                    seen::intruder(NAME, &queue.prefix);
                    let why = context.driver.why_gone(&own.key, own.state.sequence()).await;
                    return context.watches.removed(&own, why);
                }
                Err(error) if error.may_pass() => backoff.wait(own.state.lease().clock()).await,
                Err(error) => {
                    return tracing::debug!(%error, "the server refused the check of an admission");
                }
            }
        }
    });
}

async fn is_first(driver: &Driver, own: &OwnNode, queue: &Queue) -> Answer<bool> {
    let order = Order::OldestUpTo(own.state.sequence());
    let (mut found, revision) = driver.range(nodes(queue, order, READ)).await?;
    let takes_part = |stored: &&StoredKey| queue.claim(stored).is_some();
    if found.more && !found.keys.iter().any(|stored| takes_part(&stored)) {
        found = whole(driver, queue, None, revision).await?;
    }
    let first = found.keys.iter().filter(takes_part).min_by_key(|stored| stored.created);
    Ok(first.is_some_and(|first| first.key == *own.key && first.created == own.state.sequence()))
}
