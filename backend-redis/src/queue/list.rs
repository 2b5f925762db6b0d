use std::sync::Arc;

use latchwork_core::backend::{EntryPage, QueueEntry};
use latchwork_core::{Address, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::QueueKeys;
use crate::scripts;

const LISTED_AT_ONCE: usize = 500;

pub(crate) async fn list(client: &Arc<Client>, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
    let queue = QueueKeys::of(queue)?;
    let (mut entries, mut after, mut is_refused) = (Vec::new(), page.after, false);
    while entries.len() < page.most {
        let most = (page.most - entries.len()).min(LISTED_AT_ONCE);
        let script = if is_refused { scripts::list_unchanged } else { scripts::list };
        let (_, reply) = match client.run_large(&script(&queue, after, most)).await {
            // For example a server that cannot save its data.
            Err(error) if !is_refused && error.is_refusal() => {
                is_refused = true;
                continue;
            }
            answer => answer.map_err(only_read)?,
        };
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

pub(crate) async fn revoke(client: &Arc<Client>, queue: &Address, sequence: u64) -> Result<bool> {
    let queue = QueueKeys::of(queue)?;
    client.change(&queue, &scripts::revoke(&queue, sequence)).await
}
