//! The cell that holds a semaphore's limit, as a join of permits meets it.

use latchwork_core::contracts::Join;
use latchwork_core::decide::Claim;
use latchwork_core::{Error, ErrorKind};

use crate::error::Answer;
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
        join.limit.map_or(Self::Stored, |limit| Self::Holds(limit.to_string().into_bytes()))
    }

    /// As it was read, and the limit that counts then, which the join agrees with.
    pub(crate) fn as_read(join: &Join, read: Option<&Found>) -> Answer<(Self, u32)> {
        let entry = read.and_then(|found| found.entries.first());
        let stored = stored_limit(read);
        if let (None, Some(entry)) = (stored, entry) {
            let text = String::from_utf8_lossy(&entry.value);
            let why = format!("the stored limit {text:?} is no number");
            return Err(Error::new(ErrorKind::Conflict, why).into());
        }
        match (stored, join.limit, join.claim) {
            (None, Some(limit), _) => Ok((Self::Missing(limit), limit)),
            (Some(stored), Some(limit), _) if stored != limit => Err(join.conflict(Some(stored)).into()),
            (Some(stored), _, Claim::Permits(weight)) if weight > stored => {
                Err(join.conflict(Some(stored)).into())
            }
            (Some(stored), _, _) => {
                // In the words in which it is stored, which may be another program's.
                Ok((Self::Holds(entry.map_or_else(Vec::new, |entry| entry.value.clone())), stored))
            }
            (None, None, _) => Err(join.conflict(None).into()),
        }
    }

    pub(crate) fn guard(&self, key: String) -> Guard {
        match self {
            Self::Stored => Guard::Present(key),
            Self::Holds(value) => Guard::Holds(key, value.clone()),
            Self::Missing(_) => Guard::Absent(key),
        }
    }
}
