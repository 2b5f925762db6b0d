//! The stored limit of a semaphore.

use std::sync::Arc;

use latchwork_core::backend::QueuePage;
use latchwork_core::{Address, Claim, QueuePrefix, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::{ListedKeys, QueueKeys};
use crate::scripts;
use crate::walk::Walk;

pub(crate) async fn limit(client: &Client, queue: &Address) -> Result<Option<u32>> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::limit(&queue)).await.map_err(only_read)?;
    scripts::stored_limit(reply)?.known()
}

pub(crate) async fn set_limit(client: &Arc<Client>, queue: &Address, limit: u32) -> Result<()> {
    set(client, queue, limit, None).await.map(drop)
}

/// Stores it over this limit, or over none. Answers whether that stood.
pub(crate) async fn replace_limit(
    client: &Arc<Client>,
    queue: &Address,
    stored: Option<u32>,
    limit: u32,
) -> Result<bool> {
    set(client, queue, limit, Some(stored)).await
}

async fn set(client: &Arc<Client>, queue: &Address, limit: u32, over: Option<Option<u32>>) -> Result<bool> {
    let queue = permits(queue)?;
    let (_, reply) = client.run(&scripts::set_limit(&queue, limit, over, None)).await?;
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
) -> Result<QueuePage> {
    let mut walk = Walk::from(client, ListedKeys::limits(of), after, most)?;
    let mut queues = Vec::new();
    while let Some(shown) = walk.step().await? {
        queues.extend(shown);
        if queues.len() >= most {
            break;
        }
    }
    Ok(QueuePage { queues, next: walk.next_page() })
}

fn permits(queue: &Address) -> Result<QueueKeys> {
    let queue = QueueKeys::of(queue)?;
    queue.check(Claim::Permits(1))?;
    Ok(queue)
}
