//! The renewal of ephemeral cells, beside that of nodes.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use latchwork_core::Result;

use crate::cells::leased::Written;
use crate::client::Client;
use crate::driver::Place;
use crate::queue::cleanup::of_each_script;
use crate::scripts;

/// Scripts in one burst: a join waits behind no more than these.
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

/// Renews the cells of one server.
async fn renew_at(client: &Arc<Client>, mut left: Vec<Vec<Written>>) -> Result<()> {
    let (mut missing, mut refusal) = (None, None);
    while !left.is_empty() {
        let mut answers_come = false;
        let burst = left.split_off(left.len().saturating_sub(SCRIPTS_AT_ONCE));
        let request = |part: &Vec<Written>| {
            scripts::renew_cells(part.iter().map(|(cell, nonce)| (cell, *nonce)), client.ttl)
        };
        let calls: Vec<_> = burst.iter().map(request).collect();
        let answers = client.driver.run_all(&calls, client.renewal_bound()).await;
        for (part, answer) in burst.into_iter().zip(answers) {
            match answer.and_then(|(sent, reply)| Ok((sent, scripts::cells_renewed(reply)?))) {
                Ok((sent, renewed)) => {
                    answers_come = true;
                    let gone = part.iter().zip(renewed).filter(|(_, renewed)| !renewed);
                    client.leased.forget(gone.map(|(written, _)| written));
                    client.lease.partly_proven(sent);
                }
                Err(error) if error.is_retryable() => missing = Some(error),
                // One key may be forbidden. The others must not be lost with it.
                Err(error) => {
                    answers_come = true;
                    match part.len() {
                        1 => refusal = Some(error),
                        _ => left.extend(part.into_iter().map(|written| vec![written])),
                    }
                }
            }
        }
        // The rest is not sent to a silent server: the next round begins with everything.
        if !answers_come {
            break;
        }
    }
    missing.or(refusal).map_or(Ok(()), Err)
}
