use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::decide::Claim;
use crate::shown::shown;

/// The longest label (and node data), in bytes.
pub const MAX_LABEL_BYTES: usize = 4096;

/// One node in a listing (NODE-LIST).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueEntry {
    /// The sequence number of the node.
    pub sequence: u64,
    /// The admission rule and weight.
    pub claim: Claim,
    /// Whether the node is admitted.
    pub admitted: bool,
    /// The owner's label, as [`label_of`](QueueEntry::label_of) reads it.
    pub label: String,
    /// The time since the node joined, as far as the server shows it (for display only).
    pub age: Option<Duration>,
    /// How long the server keeps the node without another renewal, rounded down by at most a second. `None`
    /// if the server does not [report it](crate::Capabilities::lease_left), or was not
    /// [asked](EntryPage::leases).
    pub lease_left: Option<Duration>,
    /// The last written data of the node (NODE-DATA).
    #[serde(skip)]
    pub data: Arc<[u8]>,
}

impl QueueEntry {
    /// Converts a label from the bytes on the server, which any client may have written: invalid UTF-8
    /// becomes U+FFFD, characters that act on a terminal are escaped, and a text longer than
    /// [`MAX_LABEL_BYTES`] is cut.
    pub fn label_of(written: &[u8]) -> String {
        let start = &written[..written.len().min(MAX_LABEL_BYTES + 1)];
        shown(&String::from_utf8_lossy(start), MAX_LABEL_BYTES).into_owned()
    }
}

/// The part of a listing to read.
#[derive(Clone, Copy, Debug)]
pub struct EntryPage {
    /// Only nodes after this sequence number (0: from the head).
    pub after: u64,
    /// The maximum number of nodes to read.
    pub most: usize,
    /// Whether to read the remaining time of each lease. On etcd this takes one request for each holder, for
    /// at most [`MAX_LEASES`](EntryPage::MAX_LEASES) holders.
    pub leases: bool,
}

impl EntryPage {
    /// The maximum number of leases that a server is asked for one by one.
    pub const MAX_LEASES: usize = 64;

    /// Creates a page that does not read leases.
    pub const fn new(after: u64, most: usize) -> Self {
        Self { after, most, leases: false }
    }

    /// Reads the leases too.
    pub const fn with_leases(self) -> Self {
        Self { leases: true, ..self }
    }
}
