//! `renew_cells.lua` and `end_cells.lua`: the cells of a lease.

use std::time::Duration;

use latchwork_core::Result;

use super::call::Call;
use super::reply::{Fields, Flags, Reply, bools};
use super::script::{END_CELLS, RENEW_CELLS};
use crate::layout::CellKey;

/// Renews cells, each as long as the write with this nonce was the last.
pub(crate) fn renew_cells<'a>(
    cells: impl Iterator<Item = (&'a CellKey, u64)> + Clone,
    ttl: Duration,
) -> Call {
    let call = Call::new(&RENEW_CELLS, cells.clone().map(|(cell, _)| cell)).arg(millis(ttl));
    cells.fold(call, |call, (_, nonce)| call.arg(format_args!("{nonce:x}")))
}

/// Per cell, whether it was renewed.
pub(crate) fn cells_renewed(reply: Reply) -> Result<Vec<bool>> {
    bools(reply)
}

/// Deletes cells, each if the write with this nonce was the last.
pub(crate) fn end_cells<'a>(cells: impl Iterator<Item = (&'a CellKey, u64)> + Clone) -> Call {
    let call = Call::new(&END_CELLS, cells.clone().map(|(cell, _)| cell));
    cells.fold(call, |call, (_, nonce)| call.arg(format_args!("{nonce:x}")))
}

pub(crate) fn cells_ended(reply: Reply) -> Result<Flags> {
    Fields::of(reply)?.int().map(Flags)
}

/// Whole milliseconds, none less than the TTL.
pub(super) fn millis(ttl: Duration) -> u128 {
    ttl.as_micros().div_ceil(1000)
}
