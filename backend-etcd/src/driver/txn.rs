//! Transactions and reads as values.

/// One key of the server, at the time of the read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    /// The number of writes since the key was created, the first included.
    pub(crate) version: u64,
    /// The lease of the key; zero for none.
    pub(crate) lease: i64,
}

/// The result of a read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) keys: Vec<StoredKey>,
    /// Whether the limit of the read has cut off other keys.
    pub(crate) more: bool,
    /// The number of keys in the range, before any filter.
    pub(crate) count: u64,
}

/// A transaction: if all `compares` are true the server runs `then`, otherwise `or_else`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Txn {
    pub(crate) compares: Vec<Compare>,
    pub(crate) then: Vec<Op>,
    pub(crate) or_else: Vec<Op>,
}

impl Txn {
    /// Runs `then` without a condition.
    pub(crate) fn always(then: Vec<Op>) -> Self {
        Self { then, ..Self::default() }
    }

    /// Runs `then` if `compare` is true.
    pub(crate) fn when(compare: Compare, then: Vec<Op>) -> Self {
        Self { compares: vec![compare], then, or_else: Vec::new() }
    }
}

/// A condition of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Compare {
    Absent(String),
    Present(String),
    /// The key was created at this revision.
    Created(Vec<u8>, u64),
    /// The key was written last at this revision.
    Modified(String, u64),
    Value(String, Vec<u8>),
    /// No key has the prefix.
    Empty(String),
    /// No key with the prefix was written after the revision.
    Unwritten(String, u64),
}

/// One operation of a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put {
        key: String,
        value: Vec<u8>,
        lease: i64,
    },
    // Other programs may have created the keys that are read or deleted. Such keys need not be text.
    Delete(Vec<u8>),
    Get(Vec<u8>),
    /// As `Get`, without the value.
    GetKey(Vec<u8>),
    Range(Range),
}

/// A read of all keys with a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) prefix: String,
    pub(crate) order: Order,
    /// Zero for no limit.
    pub(crate) limit: i64,
    pub(crate) keys_only: bool,
}

/// The order of a range, and the create revisions that it is limited to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// By create revision.
    Oldest,
    /// By create revision, after this one.
    OldestAfter(u64),
    /// By create revision, up to this one.
    OldestUpTo(u64),
    /// By create revision descending.
    Newest,
    /// By create revision descending, from this one down.
    NewestUpTo(u64),
    /// Only keys that were created at this revision.
    CreatedAt(u64),
    /// By key, which costs the server no sort.
    ByKey,
}

/// The answer to a transaction.
#[derive(Debug)]
pub(crate) struct TxnResult {
    /// Whether all compares were true.
    pub(crate) succeeded: bool,
    pub(crate) revision: u64,
    /// The results of the reads, in the order of the operations.
    pub(crate) reads: Vec<Found>,
    /// Whether the first delete has removed a key.
    pub(crate) deleted: bool,
}
