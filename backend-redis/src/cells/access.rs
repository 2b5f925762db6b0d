use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{CellWrite, CellWritten, NodeId, VersionedValue};
use latchwork_core::{Address, CellLife, Error, ErrorKind, Moment, Result, TimeToIdle};

use crate::client::Client;
use crate::driver::of_two_slots;
use crate::error::only_read;
use crate::layout::CellKey;
use crate::queue::cleanup;
use crate::scripts::{self, Call, Holder, Reply};

pub(crate) async fn read(client: &Client, cell: &Address) -> Result<Option<VersionedValue>> {
    let (_, reply) = client.run(&scripts::read_cell(&CellKey::of(cell)?)).await.map_err(only_read)?;
    scripts::cell_read(reply)
}

/// With a `holder`, writes only while its node is in the queue and has not expired by the server's time.
/// `None`: the node is gone. No script admits another node before it has removed expired nodes, so a later
/// write does not find them.
pub(crate) async fn write(
    client: &Arc<Client>,
    cell: &Address,
    write: &CellWrite,
    holder: Option<Holder<'_>>,
) -> Result<Option<CellWritten>> {
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
        (Some(asked), Ok((sent, Some(CellWritten::Written(version))))) => {
            client.lease.joined(*sent);
            asked.made(version.number(), client.lease.current());
        }
        (Some(asked), Err(error)) if error.kind() == ErrorKind::OutcomeUnknown => drop(asked),
        (Some(asked), _) => asked.not_made(),
        (None, _) => {}
    }
    if let Ok((_, Some(CellWritten::Written(version)))) = &answer {
        client.leased.overwritten(&cell, version.number());
    }
    answer.map(|(_, answer)| answer)
}

async fn made(client: &Client, call: &Call) -> Result<(Moment, Option<CellWritten>)> {
    let (sent, reply) = run(client, call).await?;
    let (answer, flags) = scripts::cell_written(reply)?;
    client.warn_of(flags);
    Ok((sent, answer))
}

/// One round trip for any number of writers.
pub(crate) async fn change_count(
    client: &Client,
    cell: &Address,
    request: &CountRequest,
    idle: Option<TimeToIdle>,
) -> Result<Decided> {
    let call = scripts::change_count(&CellKey::of(cell)?, request, nonce(), idle);
    let (_, reply) = run(client, &call).await?;
    let (decided, flags) = scripts::count_changed(reply, request.initial)?;
    client.warn_of(flags);
    Ok(decided?)
}

/// With a nonce no version occurs twice, even if the server's clock is set back.
fn nonce() -> u64 {
    RandomState::new().hash_one(NodeId::random())
}

/// A close ends the request, which the server may have carried out.
async fn run(client: &Client, call: &Call) -> Result<(Moment, Reply)> {
    if client.closing.is_cancelled() {
        return Err(Error::closed());
    }
    match client.run(call).await {
        Ok(answer) => Ok(answer),
        Err(error) if error.kind() == ErrorKind::Closed => {
            Err(Error::new(ErrorKind::OutcomeUnknown, "the client was closed before the server answered")
                .because(error))
        }
        Err(error) => Err(error),
    }
}
