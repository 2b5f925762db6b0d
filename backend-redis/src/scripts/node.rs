use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::backend::NodeId;

use super::call::Call;
use super::reply::{Fields, Flags, Reply};
use super::script::{ABANDON, DOWNGRADE, LEAVE, REVOKE, WRITE_DATA};
use crate::layout::QueueKeys;

pub(crate) fn leave(queue: &QueueKeys, id: NodeId, sequence: u64) -> Call {
    Call::of_queue(&LEAVE, queue).arg(id).arg(sequence)
}

pub(crate) fn abandon(queue: &QueueKeys, id: NodeId, lasts: Duration) -> Call {
    let keys = queue.keys().chain([queue.left()]);
    Call::timed(&ABANDON, keys).arg(queue.word()).arg(id).arg(lasts.as_micros())
}

pub(crate) fn downgrade(queue: &QueueKeys, id: NodeId, sequence: u64) -> Call {
    Call::of_queue(&DOWNGRADE, queue).arg(id).arg(sequence)
}

pub(crate) fn revoke(queue: &QueueKeys, sequence: u64) -> Call {
    Call::of_queue(&REVOKE, queue).arg(sequence)
}

pub(crate) fn write_data(queue: &QueueKeys, id: NodeId, sequence: u64, data: &[u8]) -> Call {
    let mut call = Call::of_queue(&WRITE_DATA, queue).arg(id).arg(sequence);
    call.args.push_bytes(data);
    call
}

/// Whether the node existed (after a downgrade: as a reader), or the limit was stored.
pub(crate) fn was_done(reply: Reply) -> Result<(bool, Flags)> {
    let mut reply = Fields::of(reply)?;
    Ok((reply.int()? == 1, Flags(reply.int()?)))
}
