//! The renewal of ephemeral cells, beside that of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use latchwork_core::Result;

use crate::cells::leased::Written;
use crate::client::Client;
use crate::driver::Place;
use crate::queue::cleanup::{CELLS_AT_ONCE, of_each_script};
use crate::scripts;

/// Scripts that are under way at once: a join waits behind no more than these. In a cluster each has one cell.
const SCRIPTS_AT_ONCE: usize = 64;

/// Renews cells, on all servers at once. An outright refusal is the error, after all other scripts: those
/// cells run out.
pub(super) async fn renew(client: &Arc<Client>, cells: Vec<Written>) -> Result<bool> {
    let mut servers: HashMap<Place, Vec<Vec<Written>>> = HashMap::new();
    for part in of_each_script(&client.driver, &cells) {
        let place = part.first().and_then(|(cell, _)| client.driver.place(cell.channel()));
        servers.entry(place).or_default().push(part);
    }
    let mut failed = None;
    for renewed in join_all(servers.into_values().map(|parts| renew_at(client, parts))).await {
        match renewed {
            Err(error) if error.is_retryable() || failed.is_none() => failed = Some(error),
            _ => {}
        }
    }
    failed.map_or(Ok(true), Err)
}

/// Renews the cells of one server. One that waits for a slot on its way keeps no other waiting, as long as
/// fewer wait than are sent at once.
async fn renew_at(client: &Arc<Client>, mut left: Vec<Vec<Written>>) -> Result<()> {
    let (mut missing, mut refusal) = (None, None);
    while !left.is_empty() {
        let largest = left.iter().map(Vec::len).max().unwrap_or(1);
        let at_once = (CELLS_AT_ONCE / largest).clamp(1, SCRIPTS_AT_ONCE);
        let sending = std::mem::take(&mut left).into_iter().map(async |part| {
            let call = scripts::renew_cells(part.iter().map(|(cell, nonce)| (cell, *nonce)), client.ttl);
            let answer = client.driver.run(&call, client.renewal_bound()).await;
            (part, answer.and_then(|(sent, reply)| Ok((sent, scripts::cells_renewed(reply)?))))
        });
        let mut answers = stream::iter(sending).buffer_unordered(at_once);
        let mut misses = 0;
        while let Some((part, answer)) = answers.next().await {
            match answer {
                Ok((sent, renewed)) => {
                    misses = 0;
                    let gone = part.iter().zip(renewed).filter(|(_, renewed)| !renewed);
                    client.leased.forget(gone.map(|(written, _)| written));
                    client.lease.partly_proven(sent);
                }
                Err(error) if error.is_retryable() => {
                    missing = Some(error);
                    misses += 1;
                    // The rest is not sent to a silent server: the next round begins with everything.
                    if misses == at_once {
                        return missing.map_or(Ok(()), Err);
                    }
                }
                // One key may be forbidden. The others must not be lost with it.
                Err(_) if part.len() > 1 => left.extend(part.into_iter().map(|written| vec![written])),
                Err(error) => (misses, refusal) = (0, Some(error)),
            }
        }
    }
    missing.or(refusal).map_or(Ok(()), Err)
}
