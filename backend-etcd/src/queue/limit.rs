//! The stored limit of a semaphore, and what a join of permits compares of it.

use latchwork_core::Result;
use latchwork_core::contracts::{AskedLimit, Join, Patience, StoredLimit};

use crate::driver::{Compare, Found};

/// The limit that a read has found.
pub(crate) fn stored_limit(read: Option<&Found>) -> StoredLimit {
    let stored = read.and_then(|found| found.keys.first());
    StoredLimit::read(stored.map(|stored| &*stored.value))
}

/// What the transaction of a join compares of the stored limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LimitCompare {
    /// There is one. The join learns it from the answer: only for a join that waits.
    Stored,
    /// It has this value.
    Is(Vec<u8>),
    /// There is none, and the join stores its own.
    Absent(u32),
}

impl LimitCompare {
    /// The common case: this limit was stored before.
    pub(crate) fn expected(join: &Join) -> Self {
        match (join.limit, join.patience) {
            (AskedLimit::Exactly(limit), _) => Self::Is(limit.to_string().into_bytes()),
            // A try is decided by a limit that is known before.
            (AskedLimit::UnlessStored(limit), Patience::Try) => Self::Is(limit.to_string().into_bytes()),
            (AskedLimit::UnlessStored(_) | AskedLimit::Stored, _) => Self::Stored,
        }
    }

    /// By the limit that was read. Answers the limit that counts for the join too.
    pub(crate) fn as_read(join: &Join, read: Option<&Found>) -> Result<(Self, u32)> {
        let limit = join.settle(&stored_limit(read))?;
        Ok(match read.and_then(|found| found.keys.first()) {
            // As it is written, which may be another program's way ("03").
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
