//! How a hold ends.

use std::fmt;

use crate::error::{LostReason, Result};

/// What a release answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it may have been lost before, and another have held it since"]
pub enum Release {
    /// The hold lasted until now, and is given back. It is free, unless its owner holds it by
    /// another guard, or [`hold_at_least`](crate::recipes::Acquire::hold_at_least) keeps it.
    Released,
    /// The hold was lost before, as this client or the server knows. Another client may have held
    /// it since.
    AlreadyLost(LostReason),
}

impl Release {
    /// What the releases of all nodes of one hold say of it. A loss outweighs what is not known.
    pub(crate) fn of_all(answers: impl IntoIterator<Item = Result<Self>>) -> Result<Self> {
        let mut whole = Ok(Release::Released);
        for answer in answers {
            whole = match (answer, whole) {
                (Ok(lost @ Release::AlreadyLost(_)), _) | (_, Ok(lost @ Release::AlreadyLost(_))) => Ok(lost),
                (Err(error), Ok(_)) => Err(error),
                (_, whole) => whole,
            };
        }
        whole
    }
}

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The hold was lost: another client may hold now.
    Lost(LostReason),
    /// The holder released or dropped it.
    Released,
}

impl Ended {
    /// The reason as an error has it: [`LostReason::Released`] for a hold that was released.
    pub fn reason(self) -> LostReason {
        match self {
            Ended::Lost(reason) => reason,
            Ended::Released => LostReason::Released,
        }
    }
}

impl From<Release> for Ended {
    fn from(release: Release) -> Self {
        match release {
            Release::Released => Ended::Released,
            Release::AlreadyLost(reason) => Ended::Lost(reason),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}
