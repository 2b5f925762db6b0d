//! The words in which the protocol speaks to etcd: comparisons, steps and watches, without the client crate.

use std::sync::Arc;

/// One entry of the key space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    /// How often it was written since it was created: 1 at first.
    pub(crate) version: u64,
    /// The lease that it hangs on; zero for none.
    pub(crate) lease: i64,
}

/// What a read found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) entries: Vec<Entry>,
    /// There is more than the limit let through.
    pub(crate) more: bool,
    /// How many keys the range has, whatever was filtered.
    pub(crate) count: u64,
}

/// What a transaction compares.
#[derive(Clone, Debug)]
pub(crate) enum Guard {
    Absent(String),
    Present(String),
    Created(Vec<u8>, u64),
    Holds(String, Vec<u8>),
    /// No key has the prefix.
    Empty(String),
    /// No key with the prefix was written after the revision.
    Unwritten(String, u64),
}

/// What a transaction does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Put {
        key: String,
        value: Vec<u8>,
        lease: i64,
    },
    // Keys that are read or removed may be others', and those need not be text.
    Delete(Vec<u8>),
    Get(Vec<u8>),
    /// As `Get`, without the value.
    See(Vec<u8>),
    Range(Range),
}

/// A read of all keys with a prefix, ordered by create revision.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) prefix: String,
    pub(crate) order: Order,
    /// Zero for all.
    pub(crate) limit: i64,
    pub(crate) keys_only: bool,
}

/// In which order, and up to where, a range is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// By create revision.
    Oldest,
    /// By create revision, behind this one.
    Behind(u64),
    /// By create revision, up to this one.
    OldestUpTo(u64),
    /// By create revision descending, from this one down.
    NewestUpTo(u64),
    /// By create revision descending.
    Newest,
    /// Only what was created at this revision.
    CreatedAt(u64),
    /// As the server stores them: costs it no sort.
    ByKey,
}

/// What came of a transaction: the reads in the order of the steps.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) held: bool,
    pub(crate) revision: u64,
    pub(crate) reads: Vec<Found>,
    /// A deletion found what it was to delete.
    pub(crate) deleted: bool,
}

/// What is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    /// Chosen by us, never reused within a stream.
    pub(crate) id: i64,
    pub(crate) key: Arc<[u8]>,
    pub(crate) prefix: bool,
    /// The first revision of interest; zero for "from now on".
    pub(crate) from: u64,
    pub(crate) only: Only,
}

/// Which events are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Only {
    Deletes,
    Puts,
}

/// What the server says on a stream of watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// Events after `revision` are sent, or after the watch's own start if that is later.
    Created { id: i64, revision: u64 },
    /// What changed. Nothing: all until `revision` was sent.
    Changed { id: i64, revision: u64, changes: Vec<Change> },
    /// The first start that is not answered yet is refused, in the server's words. Not all servers say which that is.
    Refused(String),
    /// The watch is over.
    Ended { id: i64, why: Ended },
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) key: Vec<u8>,
    /// Empty where it was deleted.
    pub(crate) value: Vec<u8>,
    pub(crate) revision: u64,
}

/// Why the server ended a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its start is older than what the server keeps.
    Compacted,
    /// Anything else, in the server's words.
    Refused(String),
}
