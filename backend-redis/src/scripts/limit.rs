use crate::layout::QueueKeys;
use latchwork_core::Result;
use latchwork_core::backend::{ExpectedLimit, StoredLimit};

use super::call::Call;
use super::reply::{Reply, malformed};
use super::script::{LIMIT, SET_LIMIT};

/// [`was_done`](super::was_done) reads the answer.
pub(crate) fn set_limit(queue: &QueueKeys, limit: u32, expected: ExpectedLimit) -> Call {
    let expected = match expected {
        ExpectedLimit::Any => String::new(),
        ExpectedLimit::Absent => "-1".to_owned(),
        ExpectedLimit::Exactly(stored) => stored.to_string(),
    };
    Call::timed(&SET_LIMIT, queue.keys()).arg(limit).arg(expected)
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
