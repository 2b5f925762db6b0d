//! Reading and writing cells: one script each.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use latchwork_core::backend::{CellWrite, CellWritten, NodeId, VersionedValue};
use latchwork_core::{Address, CellLife, Error, ErrorKind, Moment, Result};

use crate::client::Client;
use crate::driver::of_two_slots;
use crate::error::only_read;
use crate::layout::CellKey;
use crate::queue::cleanup;
use crate::scripts::{self, Call, Holder, Reply, WriteAnswer};

pub(crate) async fn read(client: &Client, cell: &Address) -> Result<Option<VersionedValue>> {
    let (_, reply) = client.run(&scripts::read_cell(&CellKey::of(cell)?)).await.map_err(only_read)?;
    scripts::cell_read(reply)
}

pub(crate) async fn write(client: &Arc<Client>, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
    match answer(client, cell, write, None).await? {
        WriteAnswer::Done(written) => Ok(written),
        WriteAnswer::Gone => {
            Err(Error::new(ErrorKind::Misconfigured, "a write without a holder was refused"))
        }
    }
}

/// A write that is made only while the holder's node stands. It stands as long as its entries are in
/// the queue and have not expired by the server's time. A script that lets another node in removes
/// them first, so a write that comes after that finds them gone.
pub(crate) async fn write_held(
    client: &Arc<Client>,
    cell: &Address,
    write: &CellWrite,
    holder: Holder<'_>,
) -> Result<WriteAnswer> {
    answer(client, cell, write, Some(holder)).await
}

async fn answer(
    client: &Arc<Client>,
    cell: &Address,
    write: &CellWrite,
    holder: Option<Holder<'_>>,
) -> Result<WriteAnswer> {
    let cell = CellKey::of(cell)?;
    let slot = |tag: &str| client.driver.slot(tag);
    if holder.is_some_and(|holder| slot(holder.queue.tag()) != slot(cell.channel())) {
        return Err(of_two_slots());
    }
    let nonce = nonce();
    let call = scripts::write_cell(&cell, write, nonce, client.ttl, holder);
    let asked = match write.life {
        CellLife::Lease if write.value.is_some() => {
            cleanup::before_next_lease(client).await;
            Some(client.leased.begin(cell.clone(), nonce, client.lease.current()))
        }
        _ => None,
    };
    let answer = made(client, &call).await;
    match (asked, &answer) {
        (Some(asked), Ok((sent, WriteAnswer::Done(CellWritten::Written(version))))) => {
            client.lease.joined(*sent);
            asked.made(version.number(), client.lease.current());
        }
        (Some(asked), Err(error)) if error.kind() == ErrorKind::OutcomeUnknown => drop(asked),
        (Some(asked), _) => asked.not_made(),
        (None, _) => {}
    }
    if let Ok((_, WriteAnswer::Done(CellWritten::Written(version)))) = &answer {
        client.leased.overwritten(&cell, version.number());
    }
    answer.map(|(_, answer)| answer)
}

async fn made(client: &Client, call: &Call) -> Result<(Moment, WriteAnswer)> {
    let (sent, reply) = run(client, call).await?;
    let (answer, flags) = scripts::cell_written(reply)?;
    client.warn_of(flags);
    Ok((sent, answer))
}

/// The random half of a version: whatever the server's clock does, none comes twice.
pub(super) fn nonce() -> u64 {
    RandomState::new().hash_one(NodeId::random())
}

/// A close ends a request that is under way, which may have been carried out.
pub(super) async fn run(client: &Client, call: &Call) -> Result<(Moment, Reply)> {
    if client.closing.is_cancelled() {
        return Err(Error::closed());
    }
    match client.run(call).await {
        Ok(answer) => Ok(answer),
        Err(error) if error.kind() == ErrorKind::Closed => {
            Err(Error::new(ErrorKind::OutcomeUnknown, "the client was closed before the answer")
                .because(error))
        }
        Err(error) => Err(error),
    }
}
