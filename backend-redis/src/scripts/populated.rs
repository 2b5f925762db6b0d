//! `populated.lua`.

use latchwork_core::Result;

use super::call::{Call, TimeOverride, time_word};
use super::reply::{Reply, bools};
use super::script::POPULATED;
use crate::layout::QueueKeys;

pub(crate) fn populated<'a>(queues: impl Iterator<Item = &'a QueueKeys>, time: TimeOverride) -> Call {
    Call::new(&POPULATED, queues.flat_map(QueueKeys::nodes)).arg(time_word(time))
}

/// Per queue, whether it has a node.
pub(crate) fn are_populated(reply: Reply) -> Result<Vec<bool>> {
    bools(reply)
}
