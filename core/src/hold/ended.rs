use std::fmt;

use crate::contracts::LeaseState;
use crate::error::{Error, ErrorKind, LostReason, Result};

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// The holder released or dropped the guard.
    Released,
    /// The hold was lost: another client may hold the lock now.
    Lost(LostReason),
}

/// The state of a hold at the instant of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldState {
    /// Held, and the coordinator answers.
    Held,
    /// Held until the lease's deadline, but the coordinator does not answer: pause writes.
    Suspended,
    /// The hold has ended.
    Ended(Ended),
}

impl From<LeaseState> for HoldState {
    fn from(lease: LeaseState) -> Self {
        match lease {
            LeaseState::Live => Self::Held,
            LeaseState::Suspended => Self::Suspended,
            LeaseState::Lost(reason) => Self::Ended(Ended::Lost(reason)),
        }
    }
}

impl Ended {
    pub(crate) fn lost(self) -> Option<LostReason> {
        match self {
            Ended::Released => None,
            Ended::Lost(reason) => Some(reason),
        }
    }

    /// Makes the error of a call that needs the hold: `NotHeld`, or `Lost` with the reason.
    pub fn error(self) -> Error {
        match self {
            Ended::Lost(reason) => Error::lost(reason),
            Ended::Released => Error::new(ErrorKind::NotHeld, "it was released"),
        }
    }

    /// A loss takes precedence over an unknown outcome.
    pub(crate) fn of_all(answers: impl IntoIterator<Item = Result<Self>>) -> Result<Self> {
        let mut whole = Ok(Ended::Released);
        for answer in answers {
            whole = match (answer, whole) {
                (Ok(lost @ Ended::Lost(_)), _) | (_, Ok(lost @ Ended::Lost(_))) => Ok(lost),
                (Err(error), Ok(_)) => Err(error),
                (_, whole) => whole,
            };
        }
        whole
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Released => f.write_str("it was released"),
            Ended::Lost(reason) => reason.fmt(f),
        }
    }
}
