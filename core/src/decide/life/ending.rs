use super::answer::Failure;
use crate::error::LostReason;

/// The outcome of a node's removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// This request removed the node.
    Removed,
    /// The node did not exist when the first request came, for this reason.
    Absent(LostReason),
    /// The node does not exist, and an earlier request without an answer may have removed it.
    Unsure,
    /// The server refused the removal, or did not confirm it in time.
    Unconfirmed,
}

/// How an owner ends a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// A release: the work is over.
    Release,
    /// A drop: the work may still run.
    Drop,
}

/// The time of the removal of an ended hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TakeBack {
    /// Now, and a release waits for the answer.
    Now,
    /// Now, in the background: the hold was lost before.
    Lost,
    /// In the background, after its `min_hold`.
    Later,
    /// One margin after its own client ended it.
    Lingers,
}

/// The step after a try of a clean-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AfterTry {
    /// The clean-up has ended.
    Done,
    /// Try again, after a delay.
    Again,
    /// Rare retries continue, and no call waits: the refusal may end while the lease lives.
    Insist,
}

impl AfterTry {
    /// Decides after a try. `obsolete`: the node has expired on the server.
    pub fn of(failure: Option<Failure>, obsolete: bool) -> Self {
        match failure {
            None | Some(Failure::Lost(_) | Failure::Closed) => AfterTry::Done,
            Some(Failure::Unsent | Failure::Unanswered) if !obsolete => AfterTry::Again,
            Some(_) => AfterTry::Insist,
        }
    }
}
