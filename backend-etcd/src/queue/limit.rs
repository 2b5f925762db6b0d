//! The stored limit of a semaphore, and the comparison of a join with it.

use latchwork_core::backend::{ExpectedLimit, Join, Patience, StoredLimit};
use latchwork_core::{Limit, ListedKey, Page, QueuePrefix, Result};

use crate::driver::{Compare, Driver, Found, Op, Txn};
use crate::error::Failure;
use crate::layout::{Queue, limits_of};
use crate::walk;

/// Reads the stored limit (NODE-LIMITS).
pub(crate) async fn read(driver: &Driver, queue: &Queue) -> Result<Option<u32>> {
    stored_limit(Some(&driver.get(queue.limit.as_bytes()).await?)).known()
}

/// Stores the limit if `expected` is stored, and returns whether it was. The server compares the
/// revision of the limit that was read.
pub(crate) async fn set(driver: &Driver, queue: &Queue, expected: ExpectedLimit, limit: u32) -> Result<bool> {
    let put = put(queue, limit);
    let txn = match expected {
        ExpectedLimit::Any => Txn::always(vec![put]),
        ExpectedLimit::Absent => Txn::when(Compare::Absent(queue.limit.clone()), vec![put]),
        ExpectedLimit::Exactly(_) => {
            let found = driver.get(queue.limit.as_bytes()).await?;
            let Some(stored) = found.keys.first().filter(|_| expected.is_met_by(&stored_limit(Some(&found))))
            else {
                return Ok(false);
            };
            Txn::when(Compare::Modified(queue.limit.clone(), stored.modified), vec![put])
        }
    };
    Ok(driver.txn(txn).await.map_err(Failure::of_write)?.succeeded)
}

fn put(queue: &Queue, limit: u32) -> Op {
    // Without a lease, because a stored limit stays.
    Op::Put { key: queue.limit.clone(), value: limit.to_string().into_bytes(), lease: 0 }
}

/// Returns a page of the queues with a stored limit, in the order of the keys, which are one range.
pub(crate) async fn queues(
    driver: &Driver,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    let root = limits_of(of.namespace(), of.kind());
    walk::page(driver, &root, of, (after, most), |queue, _| ListedKey::limit(queue)).await
}

/// The limit in the answer to a read.
pub(crate) fn stored_limit(read: Option<&Found>) -> StoredLimit {
    let stored = read.and_then(|found| found.keys.first());
    StoredLimit::read(stored.map(|stored| &*stored.value))
}

/// The comparison of a join's transaction with the stored limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LimitCompare {
    /// A limit is stored. The join reads it in the answer. Only for a join that waits.
    Stored,
    /// The stored limit has this value.
    Is(Vec<u8>),
    /// No limit is stored, and the join stores its own.
    Absent(u32),
}

impl LimitCompare {
    /// The common case: this limit was stored before.
    pub(crate) fn expected(join: &Join) -> Self {
        match (join.limit, join.patience) {
            (Limit::Exactly(limit), _) => Self::Is(limit.to_string().into_bytes()),
            // A try needs a limit that is known before.
            (Limit::UnlessStored(limit), Patience::Try) => Self::Is(limit.to_string().into_bytes()),
            (Limit::UnlessStored(_) | Limit::Stored, _) => Self::Stored,
        }
    }

    /// The comparison with the limit that was read. Also returns the limit that counts for the
    /// join.
    pub(crate) fn as_read(join: &Join, read: Option<&Found>) -> Result<(Self, u32)> {
        let limit = join.settle(&stored_limit(read))?;
        Ok(match read.and_then(|found| found.keys.first()) {
            // The exact text, which another program may have written in another form ("03").
            Some(stored) => (Self::Is(stored.value.clone()), limit),
            None => (Self::Absent(limit), limit),
        })
    }

    pub(crate) fn compare(&self, key: String) -> Compare {
        match self {
            Self::Stored => Compare::Present(key),
            Self::Is(value) => Compare::Value(key, value.clone()),
            Self::Absent(_) => Compare::Absent(key),
        }
    }
}
