use crate::error::{Error, ErrorKind, LostReason};

/// The meaning of a failed request for a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// The request was certainly not sent.
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
    /// Hold the node, unless [`Life::hold`](super::Life::hold) finds that it is lost.
    Hold,
    /// Wait in the queue.
    Wait,
    /// A try was not admitted.
    Refused,
    /// Send the same join again, after a delay.
    JoinAgain,
    /// Begin a new attempt, under a new lease and at the tail of the queue.
    JoinAnew,
    /// Return the error.
    Fail,
}

/// The possible remains of a join on the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Residue {
    /// No node, and no request that may still make one.
    Nothing,
    /// Perhaps a node, now or later: abandon the attempt.
    Unknown,
    /// A node, which must leave.
    Node,
}

impl Residue {
    /// Returns the remains of a failed join. `unanswered`: an earlier join of the attempt has no answer, and
    /// may arrive later.
    pub fn after(failure: Failure, unanswered: bool) -> Self {
        match failure {
            // The end of a lease or client during a request leaves its outcome unknown.
            Failure::Unanswered | Failure::Closed => Residue::Unknown,
            Failure::Lost(reason) if reason != LostReason::Revoked => Residue::Unknown,
            _ if unanswered => Residue::Unknown,
            _ => Residue::Nothing,
        }
    }
}

/// Returns whether the client joins again after this loss: not if another client removed the node on purpose.
pub fn joins_anew(reason: LostReason) -> bool {
    matches!(reason, LostReason::Expired | LostReason::Forgotten)
}
