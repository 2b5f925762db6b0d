//! `write_data.lua`.

use latchwork_core::backend::NodeId;

use super::call::{Call, TimeOverride, time_word};
use super::script::WRITE_DATA;
use crate::layout::QueueKeys;

/// The answer is read by [`was_there`](super::was_there).
pub(crate) fn write_data(
    queue: &QueueKeys,
    id: NodeId,
    sequence: u64,
    data: &[u8],
    time: TimeOverride,
) -> Call {
    let mut call =
        Call::new(&WRITE_DATA, queue.keys()).arg(time_word(time)).arg(queue.word()).arg(id).arg(sequence);
    call.args.push_bytes(data);
    call
}
