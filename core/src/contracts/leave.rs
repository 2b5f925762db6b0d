//! The answer to a leave.

use crate::error::LostReason;

/// What the server answers to a [`leave`](super::Node::leave).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The node was there until now: this request removed it, or, if the backend knows that, an
    /// earlier one did.
    Removed,
    /// The node was not there when this request came, for this reason; `Revoked` if the backend
    /// knows no better. An earlier request whose reply was lost may have removed it: core keeps
    /// count of those.
    Absent(LostReason),
}

impl Leave {
    /// The answer of a server that only says whether the node was there: if not, another client
    /// removed it.
    pub fn of(was_there: bool) -> Self {
        if was_there { Leave::Removed } else { Leave::Absent(LostReason::Revoked) }
    }
}
