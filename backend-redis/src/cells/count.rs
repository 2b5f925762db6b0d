//! Counts, which the server changes by itself: one script, one round trip, among any number of
//! writers. Another client that changes a count by compare-and-set finds the same text in the cell.

use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::{Address, Result, TimeToIdle};

use super::access;
use crate::client::Client;
use crate::layout::CellKey;
use crate::scripts;

pub(crate) async fn change(
    client: &Client,
    cell: &Address,
    request: &CountRequest,
    idle: Option<TimeToIdle>,
) -> Result<Decided> {
    let call = scripts::change_count(&CellKey::of(cell)?, request, access::nonce(), idle);
    let (_, reply) = access::run(client, &call).await?;
    let (decided, flags) = scripts::count_changed(reply, request.initial)?;
    client.warn_of(flags);
    Ok(decided?)
}
