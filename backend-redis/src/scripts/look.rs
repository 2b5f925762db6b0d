//! The requests of a watch, because the server publishes nothing when a node or cell expires.

use std::time::Duration;

use latchwork_core::Result;

use super::call::Call;
use super::reply::{Fields, Flags, Reply, malformed, unsigned};
use super::script::{LOOK, LOOK_CELL};
use crate::layout::{CellKey, QueueKeys};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    Ends(Duration),
    Stays,
    Nothing,
}

pub(crate) fn look(queue: &QueueKeys) -> Call {
    Call::of_queue(&LOOK, queue)
}

pub(crate) fn looked(reply: Reply) -> Result<(Looked, bool, Flags)> {
    let mut reply = Fields::of(reply)?;
    let found = match reply.int()? {
        -1 => Looked::Nothing,
        ahead => Looked::Ends(Duration::from_micros(unsigned(ahead)?)),
    };
    Ok((found, reply.int()? == 1, Flags(reply.int()?)))
}

pub(crate) fn look_cell(cell: &CellKey) -> Call {
    Call::new(&LOOK_CELL, [cell])
}

pub(crate) fn cell_looked(reply: Reply) -> Result<Looked> {
    match reply {
        Reply::Int(-2) => Ok(Looked::Nothing),
        Reply::Int(-1) => Ok(Looked::Stays),
        Reply::Int(ahead) => Ok(Looked::Ends(Duration::from_millis(unsigned(ahead)?))),
        _ => Err(malformed()),
    }
}
