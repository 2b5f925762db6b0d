#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredKey {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) version: u64,
    pub(crate) lease: i64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) keys: Vec<StoredKey>,
    pub(crate) more: bool,
    /// The number of keys before any filter.
    pub(crate) count: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Txn {
    pub(crate) compares: Vec<Compare>,
    pub(crate) then: Vec<Op>,
    pub(crate) or_else: Vec<Op>,
}

impl Txn {
    pub(crate) fn always(then: Vec<Op>) -> Self {
        Self { then, ..Self::default() }
    }

    pub(crate) fn when(compare: Compare, then: Vec<Op>) -> Self {
        Self { compares: vec![compare], then, or_else: Vec::new() }
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Compare {
    Absent(String),
    Present(String),
    Created(Vec<u8>, u64),
    Modified(String, u64),
    Value(String, Vec<u8>),
    Empty(String),
    Unwritten(String, u64),
}

#[derive(Clone, Debug)]
pub(crate) enum Op {
    Put { key: String, value: Vec<u8>, lease: i64 },
    // Other programs may have created the keys that are read or deleted, and these need not be text.
    Delete(Vec<u8>),
    Get(Vec<u8>),
    GetKey(Vec<u8>),
    Range(Range),
}

#[derive(Clone, Debug)]
pub(crate) struct Range {
    pub(crate) prefix: String,
    pub(crate) order: Order,
    pub(crate) limit: i64,
    pub(crate) keys_only: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    Oldest,
    OldestAfter(u64),
    OldestUpTo(u64),
    Newest,
    NewestUpTo(u64),
    CreatedAt(u64),
    /// The only order without a sort on the server.
    ByKey,
}

#[derive(Debug)]
pub(crate) struct TxnResult {
    pub(crate) succeeded: bool,
    pub(crate) revision: u64,
    pub(crate) reads: Vec<Found>,
    /// Whether the first delete has removed a key.
    pub(crate) deleted: bool,
}
