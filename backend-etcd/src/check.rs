//! A look behind an admission that a message brought: whether the node is the first of its queue indeed.
//!
//! Whoever may write below the namespace can write a message, and an inbox is no proof against that. The look costs one read, and nobody
//! waits for it: a hold that is not the first is lost as one whose node was removed. A hold that is over before costs none.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::Error;

use crate::backend::Client;
use crate::backoff::Backoff;
use crate::error::Answer;
use crate::keys::Queue;
use crate::nodes::EtcdNode;
use crate::terms::{Entry, Order, Range};
use crate::view;
use crate::watch::Own;

/// A hold that is over before this is not looked at.
const SHORT: Duration = Duration::from_millis(50);
/// Foreign entries may stand before the node.
const LOOKED_AT: i64 = 4;

/// Looks, in the background, until there is an answer or the node has left.
pub(crate) fn later(node: &EtcdNode, queue: &Queue) {
    let (client, own, queue) = (Arc::clone(&node.client), Arc::clone(&node.own), queue.clone());
    node.client.leases.runtime.spawn(async move {
        tokio::time::sleep(SHORT).await;
        let mut backoff = Backoff::new();
        while client.watches.is_own(&own) && own.state.lost().is_none() {
            match is_first(&client, &own, &queue).await.map_err(Error::from) {
                Ok(true) => return,
                Ok(false) => {
                    tracing::warn!(queue = queue.prefix, "a hold that was not its turn is given up");
                    let why = client.driver.why_gone(&own.key, own.state.sequence()).await;
                    return client.watches.removed(&own, why);
                }
                Err(error) if error.is_retryable() => backoff.pause().await,
                Err(error) => {
                    return tracing::debug!(%error, "an admission may not be looked at");
                }
            }
        }
    });
}

async fn is_first(client: &Client, own: &Own, queue: &Queue) -> Answer<bool> {
    let order = Order::OldestUpTo(own.state.sequence());
    let range = Range { prefix: queue.prefix.clone(), order, limit: LOOKED_AT, keys_only: true };
    let (mut found, revision) = client.driver.range(range).await?;
    let takes_part = |entry: &&Entry| queue.claim(entry).is_some();
    if found.more && !found.entries.iter().any(|entry| takes_part(&entry)) {
        found = view::whole(&client.driver, queue, None, revision).await?;
    }
    let first = found.entries.iter().filter(takes_part).min_by_key(|entry| entry.created);
    Ok(first.is_some_and(|first| first.key == *own.key && first.created == own.state.sequence()))
}
