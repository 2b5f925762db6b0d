use crate::error::{Error, ErrorKind, LostReason};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MeteredOutcome {
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

impl MeteredOutcome {
    /// The order is that of the declaration.
    pub(super) const ALL: [(MeteredOutcome, &str); 10] = [
        (MeteredOutcome::Acquired, "acquired"),
        (MeteredOutcome::Refused, "refused"),
        (MeteredOutcome::Timeout, "timeout"),
        (MeteredOutcome::Unavailable, "unavailable"),
        (MeteredOutcome::Lost, "lost"),
        (MeteredOutcome::Conflict, "conflict"),
        (MeteredOutcome::Forbidden, "forbidden"),
        (MeteredOutcome::Closed, "closed"),
        (MeteredOutcome::Dropped, "dropped"),
        (MeteredOutcome::Failed, "failed"),
    ];

    pub(crate) fn of(error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Timeout => MeteredOutcome::Timeout,
            ErrorKind::Unavailable | ErrorKind::OutcomeUnknown => MeteredOutcome::Unavailable,
            ErrorKind::Lost(_) => MeteredOutcome::Lost,
            ErrorKind::Conflict => MeteredOutcome::Conflict,
            ErrorKind::Forbidden => MeteredOutcome::Forbidden,
            ErrorKind::Closed | ErrorKind::RuntimeGone => MeteredOutcome::Closed,
            _ => MeteredOutcome::Failed,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

pub(super) const REASONS: [(LostReason, &str); 5] = [
    (LostReason::Expired, "expired"),
    (LostReason::Revoked, "revoked"),
    (LostReason::Forgotten, "forgotten"),
    (LostReason::MaxHold, "max_hold"),
    (LostReason::Closed, "closed"),
];
