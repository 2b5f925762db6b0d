//! `limit.lua` and `set_limit.lua`.

use latchwork_core::Result;
use latchwork_core::backend::StoredLimit;

use super::call::{Call, TimeOverride, time_word};
use super::reply::{Fields, Flags, Reply, malformed};
use super::script::{LIMIT, SET_LIMIT};
use crate::layout::QueueKeys;

/// Stores the limit over what is stored: whatever that is, or a limit that is known, or none.
pub(crate) fn set_limit(
    queue: &QueueKeys,
    limit: u32,
    over: Option<Option<u32>>,
    time: TimeOverride,
) -> Call {
    let over = over.map(|stored| stored.map_or_else(|| "-1".to_owned(), |stored| stored.to_string()));
    Call::new(&SET_LIMIT, queue.keys()).arg(time_word(time)).arg(limit).arg(over.unwrap_or_default())
}

/// Whether it was stored.
pub(crate) fn limit_set(reply: Reply) -> Result<(bool, Flags)> {
    let mut reply = Fields::of(reply)?;
    Ok((reply.int()? == 1, Flags(reply.int()?)))
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
