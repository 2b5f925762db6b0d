use etcd_client::{
    Compare as CompareRequest, CompareOp, DeleteOptions, GetOptions, GetResponse, PutOptions, SortOrder,
    SortTarget, Txn as TxnRequest, TxnOp,
};

use super::txn::{Compare, Found, Op, Order, Range, StoredKey, Txn};

pub(super) fn txn_request(txn: Txn) -> TxnRequest {
    TxnRequest::new()
        .when(txn.compares.into_iter().map(compare).collect::<Vec<_>>())
        .and_then(txn.then.into_iter().map(op).collect::<Vec<_>>())
        .or_else(txn.or_else.into_iter().map(op).collect::<Vec<_>>())
}

fn compare(compare: Compare) -> CompareRequest {
    match compare {
        Compare::Absent(key) => CompareRequest::create_revision(key, CompareOp::Equal, 0),
        Compare::Present(key) => CompareRequest::create_revision(key, CompareOp::Greater, 0),
        Compare::Created(key, at) => CompareRequest::create_revision(key, CompareOp::Equal, signed(at)),
        Compare::Modified(key, at) => CompareRequest::mod_revision(key, CompareOp::Equal, signed(at)),
        Compare::Value(key, value) => CompareRequest::value(key, CompareOp::Equal, value),
        Compare::Empty(prefix) => CompareRequest::create_revision(prefix, CompareOp::Equal, 0).with_prefix(),
        Compare::Unwritten(prefix, after) => {
            CompareRequest::mod_revision(prefix, CompareOp::Less, signed(after + 1)).with_prefix()
        }
    }
}

fn op(op: Op) -> TxnOp {
    match read_request(op) {
        Ok((key, options)) => TxnOp::get(key, Some(options)),
        Err(write) => write,
    }
}

/// Returns the request of a read.
///
/// # Errors
/// The operation, if it writes.
pub(super) fn read_request(op: Op) -> Result<(Vec<u8>, GetOptions), TxnOp> {
    match op {
        Op::Put { key, value, lease } => {
            Err(TxnOp::put(key, value, Some(PutOptions::new().with_lease(lease))))
        }
        Op::Delete(key) => Err(TxnOp::delete(key, None::<DeleteOptions>)),
        Op::Get(key) => Ok((key, GetOptions::new())),
        Op::GetKey(key) => Ok((key, GetOptions::new().with_keys_only())),
        Op::Range(range) => {
            let (prefix, options) = range_request(range);
            Ok((prefix.into_bytes(), options))
        }
    }
}

pub(super) fn range_request(range: Range) -> (String, GetOptions) {
    let options = GetOptions::new().with_prefix().with_limit(range.limit);
    let ascending = |options: GetOptions| options.with_sort(SortTarget::Create, SortOrder::Ascend);
    let descending = |options: GetOptions| options.with_sort(SortTarget::Create, SortOrder::Descend);
    let options = match range.order {
        Order::Oldest => ascending(options),
        Order::OldestAfter(created) => ascending(options).with_min_create_revision(signed(created + 1)),
        Order::OldestUpTo(created) => ascending(options).with_max_create_revision(signed(created)),
        Order::Newest => descending(options),
        Order::NewestUpTo(created) => descending(options).with_max_create_revision(signed(created)),
        Order::CreatedAt(created) => {
            options.with_min_create_revision(signed(created)).with_max_create_revision(signed(created))
        }
        Order::ByKey => options,
    };
    (range.prefix, if range.keys_only { options.with_keys_only() } else { options })
}

/// The first key after all keys with the prefix.
pub(crate) fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    // A text has no byte 255.
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

pub(super) fn found(get: &GetResponse) -> Found {
    let keys = get.kvs().iter().map(|kv| StoredKey {
        key: kv.key().to_vec(),
        value: kv.value().to_vec(),
        created: unsigned(kv.create_revision()),
        modified: unsigned(kv.mod_revision()),
        version: unsigned(kv.version()),
        lease: kv.lease(),
    });
    Found { keys: keys.collect(), more: get.more(), count: unsigned(get.count()) }
}

pub(super) fn unsigned(signed: i64) -> u64 {
    u64::try_from(signed).unwrap_or(0)
}

pub(super) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}
