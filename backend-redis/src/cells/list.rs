//! Listing the cells of a kind (CELL-LIST).

use futures_util::FutureExt;
use futures_util::future::try_join_all;
use latchwork_core::{Address, Error, ListedKey, Page, QueuePrefix, Result};

use crate::client::Client;
use crate::error::only_read;
use crate::layout::{CellKey, ListedKeys};
use crate::{scripts, walk};

/// Walks over all keys of the server for those of cells, and asks what they are.
pub(crate) async fn cells(
    client: &Client,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    of.check_cells()?;
    walk::page(client, ListedKeys::cells(of), (after, most), |client, part| with_lives(client, part).boxed())
        .await
}

/// Those that are cells, and how long they stay.
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
