//! The cell that holds a semaphore's limit, as a join of permits meets it.

use latchwork_core::Result;
use latchwork_core::contracts::{AskedLimit, Join, Patience};

use crate::terms::{Found, Guard};
use crate::view::stored_limit;

/// What a join compares of the cell.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    /// Something is stored. What that is comes with the answer: for those who wait.
    Stored,
    /// These bytes are.
    Holds(Vec<u8>),
    /// Nothing is: this join stores its own.
    Missing(u32),
}

impl Cell {
    /// As it mostly is: somebody has stored this limit before.
    pub(crate) fn expected(join: &Join) -> Self {
        match (join.limit, join.patience) {
            (AskedLimit::Exactly(limit), _) => Self::Holds(limit.to_string().into_bytes()),
            // A try is judged by a limit that is known before.
            (AskedLimit::UnlessStored(limit), Patience::Try) => Self::Holds(limit.to_string().into_bytes()),
            (AskedLimit::UnlessStored(_) | AskedLimit::Stored, _) => Self::Stored,
        }
    }

    /// As it was read, and the limit that counts then, which the join agrees with.
    pub(crate) fn as_read(join: &Join, read: Option<&Found>) -> Result<(Self, u32)> {
        let limit = join.settle(&stored_limit(read))?;
        Ok(match read.and_then(|found| found.entries.first()) {
            // In the words in which it is stored, which may be another program's.
            Some(entry) => (Self::Holds(entry.value.clone()), limit),
            None => (Self::Missing(limit), limit),
        })
    }

    pub(crate) fn guard(&self, key: String) -> Guard {
        match self {
            Self::Stored => Guard::Present(key),
            Self::Holds(value) => Guard::Holds(key, value.clone()),
            Self::Missing(_) => Guard::Absent(key),
        }
    }
}
