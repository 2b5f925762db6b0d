//! The kinds of requests, in metrics and in errors.

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Transaction,
    Deletion,
    Read,
    History,
    State,
    Members,
    Grant,
    CellGrant,
    LeaseLeft,
    Revocation,
    Renewal,
    Watch,
}

impl RequestKind {
    /// The labels of all kinds.
    pub(super) const LABELS: [&str; 11] = [
        "txn", "delete", "range", "history", "status", "members", "grant", "lease", "revoke", "renew",
        "watch",
    ];

    /// The label in metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Transaction => "txn",
            Self::Deletion => "delete",
            Self::Read => "range",
            Self::History => "history",
            Self::State => "status",
            Self::Members => "members",
            Self::Grant | Self::CellGrant => "grant",
            Self::LeaseLeft => "lease",
            Self::Revocation => "revoke",
            Self::Renewal => "renew",
            Self::Watch => "watch",
        }
    }

    /// The words in errors.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Transaction => "a transaction",
            Self::Deletion => "a deletion",
            Self::Read => "a read",
            Self::History => "a look at the past of a key",
            Self::State => "a look at its state",
            Self::Members => "a look at the members",
            Self::Grant => "the grant of a lease",
            Self::CellGrant => "the grant of a cell's lease",
            Self::LeaseLeft => "a look at a lease",
            Self::Revocation => "the end of a lease",
            Self::Renewal => "the renewal of a lease",
            Self::Watch => "a stream of watches",
        }
    }

    /// Whether it waits for the throttle: requests about keys do, so that renewals do not wait for them.
    pub(super) fn is_about_keys(self) -> bool {
        matches!(self, Self::Transaction | Self::Deletion | Self::Read | Self::History)
    }
}
