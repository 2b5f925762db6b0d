use std::collections::HashSet;

use futures_util::future::try_join_all;
use latchwork_core::backend::KeysWith;
use latchwork_core::{Address, Error, ListedKey, Page, QueuePrefix, Result};

use crate::client::Client;
use crate::driver::Cursor;
use crate::error::only_read;
use crate::layout::{CellKey, ListedKeys, QueueKeys};
use crate::scripts;

/// Keys in one step of a walk (approximately), and steps for one page: a server full of other keys may answer
/// steps without a matching key.
const LEAST_STEP: usize = 100;
const LONGEST_STEP: usize = 1000;
const STEPS: usize = 100;
const AT_ONCE: usize = 500;

/// About `most` items.
///
/// `InvalidArgument` naming `after`, if no page returned this text as its `next`.
pub(crate) async fn page(
    client: &Client,
    of: &QueuePrefix,
    with: KeysWith,
    (after, most): (Option<&str>, usize),
) -> Result<Page<ListedKey>> {
    if with == KeysWith::Cell {
        of.check_cells()?;
    }
    let keys = ListedKeys::of(of, with);
    let page = |after| {
        Cursor::parse(after)
            .ok_or_else(|| Error::invalid("after", "is not the `next` of a page of this listing"))
    };
    let mut next = Some(after.map_or_else(|| Ok(Cursor::default()), page)?);
    let (mut items, mut seen) = (Vec::new(), HashSet::new());
    for _ in 0..STEPS {
        let Some(from) = &next else { break };
        let step = most.clamp(LEAST_STEP, LONGEST_STEP);
        let (then, found) = client.scan(from, &keys.pattern(), step).await.map_err(only_read)?;
        next = then;
        let shown = found.iter().filter_map(|key| keys.address(key));
        let shown: Vec<_> = shown.filter(|address| seen.insert(address.clone())).collect();
        for part in shown.chunks(AT_ONCE) {
            items.extend(listed(client, with, part).await?);
        }
        if items.len() >= most {
            break;
        }
    }
    Ok(Page::new(items, next.map(|next| next.to_string())))
}

async fn listed(client: &Client, with: KeysWith, part: &[Address]) -> Result<Vec<ListedKey>> {
    match with {
        KeysWith::Nodes => with_nodes(client, part).await,
        // Each such key is a limit.
        KeysWith::Limit => Ok(part.iter().cloned().map(ListedKey::limit).collect()),
        KeysWith::Cell => with_lives(client, part).await,
    }
}

/// Expired nodes of an unused queue remain, because only scripts drop nodes.
async fn with_nodes(client: &Client, queues: &[Address]) -> Result<Vec<ListedKey>> {
    let queues = queues.iter().map(|queue| Ok((queue, QueueKeys::of(queue)?)));
    let queues = queues.collect::<Result<Vec<_>>>()?;
    let asked = client.driver.by_slot(queues, |(_, keys)| keys.tag()).map(async |part| {
        let keys = part.iter().map(|(_, keys)| keys);
        let (_, reply) = client.run(&scripts::populated(keys)).await.map_err(only_read)?;
        let populated = scripts::bools(reply)?.into_iter();
        let populated = part.iter().zip(populated).filter(|(_, populated)| *populated);
        Ok::<_, Error>(
            populated.map(|((queue, _), _)| ListedKey::queue((*queue).clone())).collect::<Vec<_>>(),
        )
    });
    Ok(try_join_all(asked).await?.concat())
}

async fn with_lives(client: &Client, cells: &[Address]) -> Result<Vec<ListedKey>> {
    let cells = cells.iter().map(|cell| Ok((cell, CellKey::of(cell)?)));
    let cells = cells.collect::<Result<Vec<_>>>()?;
    let asked = client.driver.by_slot(cells, |(_, key)| key.channel()).map(async |part| {
        let keys = part.iter().map(|(_, key)| key);
        let (_, reply) = client.run(&scripts::cell_lives(keys)).await.map_err(only_read)?;
        let lives = scripts::lives_of_cells(reply)?.into_iter();
        let listed = part.iter().zip(lives);
        let listed = listed.filter_map(|((cell, _), life)| Some(ListedKey::new((*cell).clone(), life?)));
        Ok::<_, Error>(listed.collect::<Vec<_>>())
    });
    Ok(try_join_all(asked).await?.concat())
}
