//! `cell_lives.lua`.

use std::time::Duration;

use latchwork_core::{CellLife, Result, TimeToIdle};

use super::call::Call;
use super::reply::{Fields, Reply, malformed};
use super::script::CELL_LIVES;
use crate::layout::CellKey;

pub(crate) fn cell_lives<'a>(cells: impl Iterator<Item = &'a CellKey>) -> Call {
    Call::new(&CELL_LIVES, cells)
}

/// Per cell, how long it stays; `None` where there is none, or another program's.
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
