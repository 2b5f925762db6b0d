use std::fmt::Display;
use std::time::Duration;

use latchwork_core::backend::{Join, Patience, StoredLimit};
use latchwork_core::{Claim, Limit, Result};

use super::call::Call;
use super::limit::stored_limit;
use super::reply::{Fields, Flags, Reply, ServerTime, malformed, unsigned};
use super::script::JOIN;
use crate::layout::QueueKeys;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JoinAnswer {
    /// `ahead`: at least the number of nodes ahead.
    Admitted {
        sequence: u64,
        ahead: usize,
    },
    Waiting {
        sequence: u64,
        ahead: Duration,
    },
    Refused,
    Abandoned,
    Conflict {
        stored: StoredLimit,
    },
}

/// `notify`: the node's secret and its client's inbox, `secret@channel`, where the script that admits the
/// node publishes.
pub(crate) fn join(queue: &QueueKeys, join: &Join, ttl: Duration, notify: impl Display) -> Call {
    let (claim, weight) = match join.claim {
        Claim::Exclusive => ("x", 1),
        Claim::Shared => ("s", 1),
        Claim::Permits(weight) => ("p", weight),
    };
    let mut call = Call::timed(&JOIN, queue.keys().chain([queue.left()]))
        .arg(queue.word())
        .arg(join.id)
        .arg(claim)
        .arg(weight)
        .arg(ttl.as_micros())
        .arg(match join.limit {
            Limit::Exactly(limit) => limit.to_string(),
            Limit::UnlessStored(limit) => format!("~{limit}"),
            Limit::Stored => String::new(),
        })
        .arg(notify);
    // The layout of versions before node data.
    let (nul, data): (&[u8], _) = if join.data.is_empty() { (b"", &join.data) } else { (b"\0", &join.data) };
    call.args.push_bytes(&[join.label.as_bytes(), nul, data].concat());
    call.arg(u8::from(join.patience == Patience::Try))
}

pub(crate) fn joined(reply: Reply) -> Result<(JoinAnswer, Flags, ServerTime)> {
    let mut reply = Fields::of(reply)?;
    let (code, a, b) = (reply.int()?, reply.next()?, reply.int()?);
    let answer = match (code, a) {
        (1, Reply::Int(a)) => {
            let ahead = usize::try_from(b).map_err(|_| malformed())?;
            JoinAnswer::Admitted { sequence: unsigned(a)?, ahead }
        }
        (2, Reply::Int(a)) => {
            JoinAnswer::Waiting { sequence: unsigned(a)?, ahead: Duration::from_micros(unsigned(b)?) }
        }
        (0, _) => JoinAnswer::Refused,
        (-1, _) => JoinAnswer::Abandoned,
        (-2, stored) => JoinAnswer::Conflict { stored: stored_limit(stored)? },
        _ => return Err(malformed()),
    };
    Ok((answer, Flags(reply.int()?), reply.int()?))
}
