use crate::error::{Error, ErrorKind, LostReason};

/// The meaning of a failed request for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The request was surely not sent.
    Unsent,
    /// The request may have been carried out.
    Unanswered,
    /// The node or its lease is lost.
    Lost(LostReason),
    /// The client is closed, or another call gave the node back.
    Closed,
    /// The server refuses the request.
    Refused,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => Failure::Unsent,
            ErrorKind::OutcomeUnknown | ErrorKind::Timeout => Failure::Unanswered,
            ErrorKind::Lost(reason) => Failure::Lost(reason),
            ErrorKind::NotHeld | ErrorKind::Closed => Failure::Closed,
            _ => Failure::Refused,
        }
    }
}

/// The step after an answer to a join or a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advance {
    /// The node is held, unless [`Life::hold`](super::Life::hold) finds that it was lost before the answer
    /// came.
    Hold,
    /// The node waits in the queue.
    Wait,
    /// A try was not admitted.
    Refused,
    /// Send the same join again, after a delay.
    JoinAgain,
    /// The attempt is over: begin a new one, under a new lease and at the tail of the queue.
    JoinAnew,
    /// Return the error.
    Fail,
}

/// The possible rest of a join on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residue {
    /// No node, and no request that may still make one.
    Nothing,
    /// Perhaps a node, now or later: the attempt must be abandoned.
    Unknown,
    /// A node, which must leave.
    Node,
}

impl Residue {
    /// Returns the possible remains of a failed join. `unanswered`: an earlier join of the attempt has no
    /// answer, and may still arrive after a later one was answered.
    pub fn after(failure: Failure, unanswered: bool) -> Self {
        match failure {
            // A lease or client that ends during a request leaves its outcome unknown.
            Failure::Unanswered | Failure::Closed => Residue::Unknown,
            Failure::Lost(reason) if reason != LostReason::Revoked => Residue::Unknown,
            _ if unanswered => Residue::Unknown,
            _ => Residue::Nothing,
        }
    }
}

/// Returns whether a lost place in the queue is joined for again: not if another client removed the node on
/// purpose.
pub fn joins_anew(reason: LostReason) -> bool {
    matches!(reason, LostReason::Expired | LostReason::Forgotten)
}
