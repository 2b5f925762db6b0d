#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestKind {
    pub(super) label: &'static str,
    pub(super) words: &'static str,
    pub(super) is_about_keys: bool,
}

impl RequestKind {
    pub(super) const TRANSACTION: Self = Self::about_keys("txn", "a transaction");
    pub(super) const DELETION: Self = Self::about_keys("delete", "a deletion");
    pub(super) const READ: Self = Self::about_keys("range", "a read");
    pub(super) const HISTORY: Self = Self::about_keys("history", "a read of the history of a key");
    pub(super) const STATE: Self = Self::other("status", "a status request");
    pub(super) const MEMBERS: Self = Self::other("members", "a list of the members");
    pub(super) const GRANT: Self = Self::other("grant", "the grant of a lease");
    pub(super) const CELL_GRANT: Self = Self::other("grant", "the grant of a cell's lease");
    pub(super) const LEASE_LEFT: Self = Self::other("lease", "a read of a lease");
    pub(super) const REVOCATION: Self = Self::other("revoke", "the revocation of a lease");
    pub(super) const RENEWAL: Self = Self::other("renew", "the renewal of a lease");
    pub(super) const CONFIRMATION: Self = Self::other("confirm", "the confirmation of a renewal");
    pub(super) const WATCH: Self = Self::other("watch", "a stream of watches");

    pub(super) const LABELS: [&str; 12] = [
        "txn", "delete", "range", "history", "status", "members", "grant", "lease", "revoke", "renew",
        "confirm", "watch",
    ];

    const fn about_keys(label: &'static str, words: &'static str) -> Self {
        Self { label, words, is_about_keys: true }
    }

    const fn other(label: &'static str, words: &'static str) -> Self {
        Self { label, words, is_about_keys: false }
    }
}
