use crate::error::LostReason;

/// The answer of the server to a [`leave`](super::Node::leave).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The node existed, and this request removed it, or, if the backend knows it, an earlier request of this
    /// client.
    Removed,
    /// The node did not exist, for this reason; `Revoked` if the backend does not know it. Core considers
    /// earlier requests with a lost reply, which may have removed it.
    Absent(LostReason),
}

impl Leave {
    /// Returns the answer of a server that reports only whether the node existed. If not, another client has
    /// removed it.
    pub fn of(was_there: bool) -> Self {
        if was_there { Leave::Removed } else { Leave::Absent(LostReason::Revoked) }
    }
}
