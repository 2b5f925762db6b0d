use super::answer::Failure;
use crate::error::LostReason;

/// How a node's removal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The node was there until now.
    Removed,
    /// The node was not there when the first request came, for this reason.
    Absent(LostReason),
    /// The node is gone, and an earlier request without an answer may have removed it.
    Unsure,
    /// The server refused the removal, or did not confirm it in time.
    Unconfirmed,
}

/// How an owner ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// By a release: the work under the hold is over.
    Release,
    /// By a drop: the work under the hold may still run.
    Drop,
}

/// When an ended hold is removed from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TakeBack {
    /// Now. A release waits for the answer.
    Now,
    /// Now, in the background: the hold was lost before, and no call waits.
    Lost,
    /// In the background, when its least time is over.
    Later,
    /// One margin after its own client ended it, by the task of its fixed end or by the close.
    Lingers,
}

/// The step after one try of a clean-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterTry {
    /// The clean-up has ended.
    Done,
    /// Try again, after a delay.
    Again,
    /// No call waits any longer, but rare retries continue: the refusal may end while the lease lives.
    Insist,
}

impl AfterTry {
    /// Decides after one try. `obsolete`: the node has expired on the server.
    pub fn of(failure: Option<Failure>, obsolete: bool) -> Self {
        match failure {
            None | Some(Failure::Lost(_) | Failure::Closed) => AfterTry::Done,
            Some(Failure::Unsent | Failure::Unanswered) if !obsolete => AfterTry::Again,
            Some(_) => AfterTry::Insist,
        }
    }
}
