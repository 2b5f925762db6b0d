//! The stored limit of a semaphore.

use std::future::ready;
use std::sync::Arc;

use futures_util::FutureExt;
use latchwork_core::backend::ExpectedLimit;
use latchwork_core::{Address, Claim, ListedKey, Page, QueuePrefix, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::{ListedKeys, QueueKeys};
use crate::{scripts, walk};

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
    // A name of such a key is a limit: nothing is asked of it.
    walk::page(client, ListedKeys::limits(of), (after, most), |_, part| {
        ready(Ok(part.iter().cloned().map(ListedKey::limit).collect())).boxed()
    })
    .await
}

fn permits(queue: &Address) -> Result<QueueKeys> {
    let queue = QueueKeys::of(queue)?;
    queue.check(Claim::Permits(1))?;
    Ok(queue)
}
