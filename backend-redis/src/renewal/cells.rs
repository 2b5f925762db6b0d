use std::sync::Arc;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use latchwork_core::Result;

use super::every;
use crate::cells::leased::Written;
use crate::client::Client;
use crate::queue::cleanup::{of_each_script, scripts_at_once};
use crate::scripts;

pub(super) async fn renew(client: &Arc<Client>, cells: Vec<Written>) -> Result<()> {
    let servers = of_each_script(&client.driver, &cells);
    every(join_all(servers.into_values().map(|parts| renew_at(client, parts))).await).map(drop)
}

/// A cell in a slot that is being moved delays no others, as long as fewer such cells wait than are sent at
/// once.
async fn renew_at(client: &Arc<Client>, mut left: Vec<Vec<Written>>) -> Result<()> {
    let (mut missing, mut refusal) = (None, None);
    while !left.is_empty() {
        let at_once = scripts_at_once(&left);
        let sending = std::mem::take(&mut left).into_iter().map(async |part| {
            let call = scripts::renew_cells(part.iter().map(|(cell, nonce)| (cell, *nonce)), client.ttl);
            let answer = client.driver.run(&call, client.renewal_bound()).await;
            (part, answer.and_then(|(sent, reply)| Ok((sent, scripts::bools(reply)?))))
        });
        let mut answers = stream::iter(sending).buffer_unordered(at_once);
        let mut misses = 0;
        while let Some((part, answer)) = answers.next().await {
            match answer {
                Ok((sent, renewed)) => {
                    misses = 0;
                    let (found, gone): (Vec<_>, Vec<_>) =
                        part.iter().zip(renewed).partition(|(_, renewed)| *renewed);
                    client.leased.renewed(found.into_iter().map(|(written, _)| written), sent);
                    client.leased.forget(gone.into_iter().map(|(written, _)| written), sent);
                    client.lease.partly_proven(sent);
                }
                Err(error) if error.may_pass() => {
                    missing = Some(error);
                    misses += 1;
                    client.leased.missed(&part);
                    // A silent server gets nothing more: the next round begins with these cells.
                    if misses == at_once {
                        return missing.map_or(Ok(()), Err);
                    }
                }
                // One key may be forbidden, which must not end the other cells.
                Err(_) if part.len() > 1 => left.extend(part.into_iter().map(|written| vec![written])),
                Err(error) => (misses, refusal) = (0, Some(error)),
            }
        }
    }
    missing.or(refusal).map_or(Ok(()), Err)
}
