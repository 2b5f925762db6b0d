//! The renewal of ephemeral cells, beside that of nodes.

use std::sync::Arc;

use latchwork_core::Result;

use crate::cells::leased::Written;
use crate::client::Client;
use crate::queue::cleanup::by_slot;
use crate::scripts;

/// Renews cells. An outright refusal is the error, after all other scripts: those cells run out.
pub(super) async fn renew(client: &Arc<Client>, cells: Vec<Written>) -> Result<bool> {
    let (mut left, mut refusal, mut silent) = (by_slot(&client.driver, &cells), None, None);
    while let Some(part) = left.pop() {
        let call = scripts::renew_cells(part.iter().map(|(cell, nonce)| (cell, *nonce)), client.ttl);
        let answer = client.driver.run(&call, client.renewal_bound()).await;
        match answer.and_then(|(sent, reply)| Ok((sent, scripts::cells_renewed(reply)?))) {
            Ok((sent, renewed)) => {
                let gone = part.iter().zip(renewed).filter(|(_, renewed)| !renewed);
                client.leased.forget(gone.map(|(written, _)| written));
                client.lease.partly_proven(sent);
            }
            // Not sent to a silent server: the next round begins with everything.
            Err(error) if error.is_retryable() => {
                let place =
                    |part: &[Written]| part.first().map(|(cell, _)| client.driver.place(cell.channel()));
                left.retain(|other| place(other) != place(&part));
                silent = Some(error);
            }
            // One key may be forbidden. The others must not be lost with it.
            Err(_) if part.len() > 1 => left.extend(part.into_iter().map(|written| vec![written])),
            Err(error) => refusal = Some(error),
        }
    }
    silent.or(refusal).map_or(Ok(true), Err)
}
