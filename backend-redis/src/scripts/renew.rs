use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::backend::{NodeId, StoredLimit};

use super::call::Call;
use super::reply::{Fields, Flags, Reply, ServerTime, malformed, unsigned};
use super::script::RENEW;
use crate::layout::QueueKeys;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RenewAnswer {
    Gone,
    Held,
    /// The node ahead may expire after `ahead`.
    Waiting {
        ahead: Duration,
    },
    Unfit {
        stored: StoredLimit,
    },
    /// The state is known once the queue is repaired.
    Unsettled,
}

const UNSETTLED: i64 = -(1 << 40);

/// For a queue without a node the script only drops, admits and notifies.
pub(crate) fn renew<'a>(
    groups: impl IntoIterator<Item = (&'a QueueKeys, Vec<(NodeId, u64)>)>,
    ttl: Duration,
) -> Call {
    let mut call = Call::timed(&RENEW, None::<&str>).arg(ttl.as_micros());
    for (queue, nodes) in groups {
        queue.keys().for_each(|key| call.keys.push(key));
        call = call.arg(queue.word()).arg(nodes.len());
        for (id, sequence) in nodes {
            call = call.arg(id).arg(sequence);
        }
    }
    call
}

/// The text is the server's reason to refuse that queue.
pub(crate) type Renewed = Vec<std::result::Result<(Flags, Vec<RenewAnswer>), String>>;

pub(crate) fn renewed(reply: Reply) -> Result<(ServerTime, Renewed)> {
    let mut reply = Fields::of(reply)?;
    let time = reply.int()?;
    let mut queues = Vec::new();
    for queue in reply.0 {
        queues.push(match queue {
            Reply::Text(error) => Err(String::from_utf8_lossy(&error).into_owned()),
            queue => {
                let mut fields = Fields::of(queue)?;
                let flags = Flags(fields.int()?);
                let nodes = fields.0.map(renew_answer).collect::<Result<_>>()?;
                Ok((flags, nodes))
            }
        });
    }
    Ok((time, queues))
}

fn renew_answer(reply: Reply) -> Result<RenewAnswer> {
    match reply {
        Reply::Int(-1) => Ok(RenewAnswer::Gone),
        Reply::Int(0) => Ok(RenewAnswer::Held),
        Reply::Int(UNSETTLED) => Ok(RenewAnswer::Unsettled),
        Reply::Int(-2) => Ok(RenewAnswer::Unfit { stored: StoredLimit::Absent }),
        Reply::Int(below @ ..-2) => {
            let limit = u32::try_from((-2_i64).saturating_sub(below)).map_err(|_| malformed())?;
            Ok(RenewAnswer::Unfit { stored: StoredLimit::Permits(limit) })
        }
        Reply::Text(foreign) => Ok(RenewAnswer::Unfit { stored: StoredLimit::foreign(&foreign) }),
        Reply::Int(wait) => {
            Ok(RenewAnswer::Waiting { ahead: Duration::from_micros(unsigned(wait)?.saturating_sub(1)) })
        }
        _ => Err(malformed()),
    }
}
