//! What an operator sees of a queue, and removes.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use futures_util::future::try_join_all;
use latchwork_core::contracts::{Entry, Page, QueuePage};
use latchwork_core::{Address, Error, QueuePrefix, Result};

use crate::client::Client;
use crate::driver::Cursor;
use crate::error::only_read;
use crate::layout::{QueueKeys, QueuesKeys};
use crate::scripts;

/// Nodes that one listing script reads.
const LISTED_AT_ONCE: usize = 500;
/// The fewest and the most keys of one step of a walk, about, and the steps for one page: a server
/// full of other keys answers pages without queues.
const LEAST_STEP: usize = 10;
const LONGEST_STEP: usize = 1000;
const STEPS: usize = 100;

pub(crate) async fn list(client: &Arc<Client>, queue: &Address, page: Page) -> Result<Vec<Entry>> {
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
) -> Result<QueuePage> {
    let mut cursor = after.map_or_else(|| Ok(Cursor::default()), page_cursor)?;
    let keys = QueuesKeys::of(of);
    // A walk may show a key twice, and a queue may have two.
    let (mut seen, mut page) = (HashSet::new(), QueuePage::default());
    for _ in 0..STEPS {
        let count = most.clamp(LEAST_STEP, LONGEST_STEP);
        let (next, found) = client.scan(&cursor, &keys.pattern(), count).await.map_err(only_read)?;
        let queues = found.iter().filter_map(|key| keys.queue(key));
        let found: Vec<_> = queues.filter(|queue| seen.insert(queue.clone())).collect();
        for part in found.chunks(LISTED_AT_ONCE) {
            page.queues.extend(with_nodes(client, part).await?);
        }
        let Some(next) = next else { return Ok(page) };
        cursor = next;
        if page.queues.len() >= most {
            break;
        }
    }
    page.next = Some(cursor.to_string());
    Ok(page)
}

/// Where a page begins, in the words of the page before.
fn page_cursor(after: &str) -> Result<Cursor> {
    Cursor::parse(after).ok_or_else(|| Error::invalid("after", "is not what a page of queues gave"))
}

/// The queues that have nodes. A queue that nobody uses leaves keys behind, and nobody drops its
/// nodes.
async fn with_nodes(client: &Client, queues: &[Address]) -> Result<Vec<Address>> {
    let mut scripts: BTreeMap<Option<u16>, Vec<_>> = BTreeMap::new();
    for queue in queues {
        let keys = QueueKeys::of(queue)?;
        scripts.entry(client.driver.slot(keys.tag())).or_default().push((queue, keys));
    }
    let asked = scripts.into_values().map(async |part| {
        let keys = part.iter().map(|(_, keys)| keys);
        let (_, reply) = client.run(&scripts::populated(keys, None)).await.map_err(only_read)?;
        let populated = scripts::are_populated(reply)?.into_iter();
        let populated = part.iter().zip(populated).filter(|(_, populated)| *populated);
        Ok::<_, Error>(populated.map(|((queue, _), _)| (*queue).clone()).collect::<Vec<_>>())
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
