use latchwork_core::backend::{ExpectedLimit, Join, Patience, StoredLimit};
use latchwork_core::{Limit, ListedKey, Page, QueuePrefix, Result};

use crate::driver::{Compare, Driver, Found, Op, Txn};
use crate::error::Failure;
use crate::layout::{Queue, limits_of};
use crate::walk;

pub(crate) async fn read(driver: &Driver, queue: &Queue) -> Result<Option<u32>> {
    stored_limit(Some(&driver.get(queue.limit.as_bytes()).await?)).known()
}

/// Returns whether `expected` was stored.
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
    Op::Put { key: queue.limit.clone(), value: limit.to_string().into_bytes(), lease: 0 }
}

pub(crate) async fn queues(
    driver: &Driver,
    of: &QueuePrefix,
    after: Option<&str>,
    most: usize,
) -> Result<Page<ListedKey>> {
    let root = limits_of(of.namespace(), of.kind());
    walk::page(driver, &root, of, (after, most), |queue, _| ListedKey::limit(queue)).await
}

pub(crate) fn stored_limit(read: Option<&Found>) -> StoredLimit {
    let stored = read.and_then(|found| found.keys.first());
    StoredLimit::read(stored.map(|stored| &*stored.value))
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LimitCompare {
    Stored,
    Is(Vec<u8>),
    Absent(u32),
}

impl LimitCompare {
    pub(crate) fn expected(join: &Join) -> Self {
        match (join.limit, join.patience) {
            (Limit::Exactly(limit), _) => Self::Is(limit.to_string().into_bytes()),
            // A try cannot learn the limit from its answer.
            (Limit::UnlessStored(limit), Patience::Try) => Self::Is(limit.to_string().into_bytes()),
            (Limit::UnlessStored(_) | Limit::Stored, _) => Self::Stored,
        }
    }

    /// Also returns the limit that counts for the join.
    pub(crate) fn as_read(join: &Join, read: Option<&Found>) -> Result<(Self, u32)> {
        let limit = join.settle(&stored_limit(read))?;
        Ok(match read.and_then(|found| found.keys.first()) {
            // Exact: another program may have written "03".
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
