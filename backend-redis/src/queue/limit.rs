//! The stored limit of a semaphore.

use std::sync::Arc;

use crate::client::Client;
use crate::error::only_read;
use crate::layout::{ListedKeys, QueueKeys};
use crate::scripts;
use crate::walk::Walk;
use latchwork_core::backend::ExpectedLimit;
use latchwork_core::{Address, Claim, ListedKey, Page, QueuePrefix, Result};

pub(crate) async fn limit(client: &Client, queue: &Address) -> Result<Option<u32>> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::limit(&queue)).await.map_err(only_read)?;
    scripts::stored_limit(reply)?.known()
}

/// Stores the limit if `expected` is stored, and returns whether it was.
pub(crate) async fn set_limit(
    client: &Arc<Client>,
    queue: &Address,
    expected: ExpectedLimit,
    limit: u32,
) -> Result<bool> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::set_limit(&queue, limit, expected, None)).await?;
    let (was_stored, flags) = scripts::limit_set(reply)?;
    client.act_on(flags, &queue);
    Ok(was_stored)
}

/// Walks over all keys of the server for stored limits.
pub(crate) async fn limited(
    client: &Client,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    let mut walk = Walk::from(client, ListedKeys::limits(of), after, most)?;
    let mut queues = Vec::new();
    while let Some(shown) = walk.step().await? {
        queues.extend(shown.into_iter().map(ListedKey::limit));
        if queues.len() >= most {
            break;
        }
    }
    Ok(Page::new(queues, walk.next_page()))
}

fn permits(queue: &Address) -> Result<QueueKeys> {
    let queue = QueueKeys::of(queue)?;
    queue.check(Claim::Permits(1))?;
    Ok(queue)
}
