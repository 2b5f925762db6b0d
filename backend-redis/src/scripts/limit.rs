//! `limit.lua` and `set_limit.lua`.

use latchwork_core::Result;
use latchwork_core::contracts::StoredLimit;

use super::call::{Call, TimeOverride, time_word};
use super::reply::{Fields, Flags, Reply, malformed};
use super::script::{LIMIT, SET_LIMIT};
use crate::layout::QueueKeys;

pub(crate) fn set_limit(queue: &QueueKeys, limit: u32, time: TimeOverride) -> Call {
    Call::new(&SET_LIMIT, queue.keys()).arg(time_word(time)).arg(limit)
}

pub(crate) fn limit_set(reply: Reply) -> Result<Flags> {
    Fields::of(reply)?.int().map(Flags)
}

pub(crate) fn limit(queue: &QueueKeys) -> Call {
    Call::new(&LIMIT, queue.keys().last())
}

pub(crate) fn stored_limit(reply: Reply) -> Result<StoredLimit> {
    match reply {
        Reply::Int(-1) => Ok(StoredLimit::Absent),
        Reply::Int(limit) => u32::try_from(limit).map(StoredLimit::Permits).map_err(|_| malformed()),
        Reply::Text(foreign) => Ok(StoredLimit::foreign(&foreign)),
        _ => Err(malformed()),
    }
}
