//! `leave.lua`, `abandon.lua`, `revoke.lua` and `downgrade.lua`: what ends a node, or its claim.

use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::backend::NodeId;

use super::call::{Call, TimeOverride, time_word};
use super::reply::{Fields, Flags, Reply};
use super::script::{ABANDON, DOWNGRADE, LEAVE, REVOKE};
use crate::layout::QueueKeys;

pub(crate) fn leave(queue: &QueueKeys, id: NodeId, sequence: u64, time: TimeOverride) -> Call {
    Call::new(&LEAVE, queue.keys()).arg(time_word(time)).arg(queue.word()).arg(id).arg(sequence)
}

/// Removes the node by its id alone, and writes a tombstone that lasts for `lasts`.
pub(crate) fn abandon(queue: &QueueKeys, id: NodeId, lasts: Duration, time: TimeOverride) -> Call {
    Call::new(&ABANDON, queue.keys().chain([queue.left()]))
        .arg(time_word(time))
        .arg(queue.word())
        .arg(id)
        .arg(lasts.as_micros())
}

pub(crate) fn downgrade(queue: &QueueKeys, id: NodeId, sequence: u64, time: TimeOverride) -> Call {
    Call::new(&DOWNGRADE, queue.keys()).arg(time_word(time)).arg(queue.word()).arg(id).arg(sequence)
}

pub(crate) fn revoke(queue: &QueueKeys, sequence: u64, time: TimeOverride) -> Call {
    Call::new(&REVOKE, queue.keys()).arg(time_word(time)).arg(queue.word()).arg(sequence)
}

/// The answer of these four, and of `write_data.lua`: whether the node was there (for a downgrade: and is a reader now).
pub(crate) fn was_there(reply: Reply) -> Result<(bool, Flags)> {
    let mut reply = Fields::of(reply)?;
    Ok((reply.int()? == 1, Flags(reply.int()?)))
}
