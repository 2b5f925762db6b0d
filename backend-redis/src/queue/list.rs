//! What an operator sees of a queue, and removes.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use latchwork_core::backend::{EntryPage, QueueEntry};
use latchwork_core::{Address, Error, ListedKey, Page, QueuePrefix, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::{ListedKeys, QueueKeys};
use crate::{scripts, walk};

/// Nodes that one listing script reads.
const LISTED_AT_ONCE: usize = 500;

pub(crate) async fn list(client: &Arc<Client>, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
    let queue = QueueKeys::of(queue)?;
    let (mut entries, mut after) = (Vec::new(), page.after);
    while entries.len() < page.most {
        let most = (page.most - entries.len()).min(LISTED_AT_ONCE);
        let (_, reply) = client.run(&scripts::list(&queue, after, most, None)).await.map_err(only_read)?;
        let (flags, part) = scripts::listed(reply, page.leases)?;
        if part.is_empty() && flags.more() {
            // The page was full of expired nodes, more than one script drops.
            continue;
        }
        client.act_on(flags, &queue);
        let Some(last) = part.last() else { break };
        after = last.sequence;
        entries.extend(part);
    }
    Ok(entries)
}

/// Walks over all keys of the server for those that show nodes, and asks which of the nodes live.
pub(crate) async fn queues(
    client: &Client,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    walk::page(client, ListedKeys::queues(of), (after, most), |client, part| with_nodes(client, part).boxed())
        .await
}

/// The queues that have nodes. A queue that nobody uses leaves keys behind, and nobody drops its
/// nodes.
async fn with_nodes(client: &Client, queues: &[Address]) -> Result<Vec<ListedKey>> {
    let queues = queues.iter().map(|queue| Ok((queue, QueueKeys::of(queue)?)));
    let queues = queues.collect::<Result<Vec<_>>>()?;
    let asked = client.driver.by_slot(queues, |(_, keys)| keys.tag()).map(async |part| {
        let keys = part.iter().map(|(_, keys)| keys);
        let (_, reply) = client.run(&scripts::populated(keys, None)).await.map_err(only_read)?;
        let populated = scripts::are_populated(reply)?.into_iter();
        let populated = part.iter().zip(populated).filter(|(_, populated)| *populated);
        Ok::<_, Error>(
            populated.map(|((queue, _), _)| ListedKey::queue((*queue).clone())).collect::<Vec<_>>(),
        )
    });
    Ok(try_join_all(asked).await?.concat())
}

pub(crate) async fn revoke(client: &Arc<Client>, queue: &Address, sequence: u64) -> Result<bool> {
    let queue = QueueKeys::of(queue)?;
    let (_, reply) = client.run(&scripts::revoke(&queue, sequence, None)).await?;
    let (was_there, flags) = scripts::was_there(reply)?;
    client.act_on(flags, &queue);
    Ok(was_there)
}
