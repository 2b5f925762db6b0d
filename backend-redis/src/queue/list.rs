//! What an operator sees of a queue, and removes.

use std::sync::Arc;

use latchwork_core::contracts::{Entry, Page};
use latchwork_core::{Address, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::QueueKeys;
use crate::scripts;

/// Nodes that one listing script reads.
const LISTED_AT_ONCE: usize = 500;

pub(crate) async fn list(client: &Arc<Client>, queue: &Address, page: Page) -> Result<Vec<Entry>> {
    let queue = QueueKeys::of(queue)?;
    let (mut entries, mut after) = (Vec::new(), page.after);
    while entries.len() < page.most {
        let most = (page.most - entries.len()).min(LISTED_AT_ONCE);
        let (_, reply) = client.run(&scripts::list(&queue, after, most, None)).await.map_err(only_read)?;
        let (flags, part) = scripts::listed(reply)?;
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

pub(crate) async fn revoke(client: &Arc<Client>, queue: &Address, sequence: u64) -> Result<bool> {
    let queue = QueueKeys::of(queue)?;
    let (_, reply) = client.run(&scripts::revoke(&queue, sequence, None)).await?;
    let (was_there, flags) = scripts::was_there(reply)?;
    client.act_on(flags, &queue);
    Ok(was_there)
}
