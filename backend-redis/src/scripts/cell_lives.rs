use std::time::Duration;

use latchwork_core::{CellLife, Result, TimeToIdle};

use super::call::Call;
use super::reply::{Fields, Flags, Reply, malformed};
use super::script::{CELL_LIVES, END_CELLS, RENEW_CELLS};
use crate::layout::CellKey;

pub(crate) fn cell_lives<'a>(cells: impl Iterator<Item = &'a CellKey>) -> Call {
    Call::new(&CELL_LIVES, cells)
}

pub(crate) fn lives_of_cells(reply: Reply) -> Result<Vec<Option<CellLife>>> {
    let life = |answer| match answer {
        Reply::Int(-2) => Ok(None),
        Reply::Int(-1) => Ok(Some(CellLife::Stays)),
        Reply::Int(0) => Ok(Some(CellLife::Lease)),
        Reply::Int(millis) => {
            let time = Duration::from_millis(u64::try_from(millis).map_err(|_| malformed())?);
            // Another program may have written any time.
            Ok(TimeToIdle::new(time).ok().map(CellLife::Idle))
        }
        _ => Err(malformed()),
    };
    Fields::of(reply)?.0.map(life).collect()
}

/// Renews each cell whose last write has this nonce. [`bools`](super::bools) reads the answer.
pub(crate) fn renew_cells<'a>(
    cells: impl Iterator<Item = (&'a CellKey, u64)> + Clone,
    ttl: Duration,
) -> Call {
    let call = Call::new(&RENEW_CELLS, cells.clone().map(|(cell, _)| cell)).arg(millis(ttl));
    cells.fold(call, |call, (_, nonce)| call.arg(format_args!("{nonce:x}")))
}

pub(crate) fn end_cells<'a>(cells: impl Iterator<Item = (&'a CellKey, u64)> + Clone) -> Call {
    let call = Call::new(&END_CELLS, cells.clone().map(|(cell, _)| cell));
    cells.fold(call, |call, (_, nonce)| call.arg(format_args!("{nonce:x}")))
}

pub(crate) fn cells_ended(reply: Reply) -> Result<Flags> {
    Fields::of(reply)?.int().map(Flags)
}

pub(super) fn millis(ttl: Duration) -> u128 {
    ttl.as_micros().div_ceil(1000)
}
