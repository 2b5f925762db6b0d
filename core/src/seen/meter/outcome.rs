//! How an acquisition ends, and why a hold does, as labels.

use crate::error::{Error, ErrorKind, LostReason};

/// How an acquisition ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Acquired,
    Refused,
    Timeout,
    Unavailable,
    Lost,
    Conflict,
    Forbidden,
    Closed,
    Dropped,
    Failed,
}

impl Outcome {
    pub(super) const ALL: [Outcome; 10] = [
        Outcome::Acquired,
        Outcome::Refused,
        Outcome::Timeout,
        Outcome::Unavailable,
        Outcome::Lost,
        Outcome::Conflict,
        Outcome::Forbidden,
        Outcome::Closed,
        Outcome::Dropped,
        Outcome::Failed,
    ];

    /// The outcome of an acquisition that ended with this error.
    pub(crate) fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout => Outcome::Timeout,
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => Outcome::Unavailable,
            ErrorKind::Lost(_) => Outcome::Lost,
            ErrorKind::Conflict => Outcome::Conflict,
            ErrorKind::Forbidden => Outcome::Forbidden,
            ErrorKind::Closed | ErrorKind::RuntimeGone => Outcome::Closed,
            _ => Outcome::Failed,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Outcome::Acquired => "acquired",
            Outcome::Refused => "refused",
            Outcome::Timeout => "timeout",
            Outcome::Unavailable => "unavailable",
            Outcome::Lost => "lost",
            Outcome::Conflict => "conflict",
            Outcome::Forbidden => "forbidden",
            Outcome::Closed => "closed",
            Outcome::Dropped => "dropped",
            Outcome::Failed => "failed",
        }
    }
}

/// The reasons that a loss can have, with their labels.
pub(super) const REASONS: [(LostReason, &str); 5] = [
    (LostReason::Expired, "expired"),
    (LostReason::Revoked, "revoked"),
    (LostReason::Forgotten, "forgotten"),
    (LostReason::MaxHold, "max_hold"),
    (LostReason::Closed, "closed"),
];
