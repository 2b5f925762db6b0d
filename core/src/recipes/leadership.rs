//! What an election's cell says: who leads.

use std::sync::Arc;

use super::queue_handle::QueueHandle;
use crate::contracts::{Cell, MAX_CELL_BYTES};
use crate::error::{Error, ErrorKind, Result};
use crate::token::Token;

/// The longest data of a leader, in bytes: the cell has the term too.
pub(super) const MAX_DATA_BYTES: usize = 4_000;

const _: () = assert!(MAX_DATA_BYTES + "18446744073709551615\n".len() <= MAX_CELL_BYTES);

/// Who leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leading {
    /// The term: the leader's fencing token.
    pub term: Token,
    /// What the leader shows.
    pub data: Arc<[u8]>,
}

impl Leading {
    /// As it stands in the cell: the term in digits, a line end, the data.
    pub(super) fn to_cell(&self) -> Arc<[u8]> {
        [format!("{}\n", self.term.as_u64()).as_bytes(), &*self.data].concat().into()
    }

    /// Reads a cell.
    ///
    /// # Errors
    /// `Conflict` when it is something else.
    pub(super) fn of(cell: &Cell) -> Result<Self> {
        let parsed = || {
            let line = cell.value.iter().position(|byte| *byte == b'\n')?;
            let term: Token = std::str::from_utf8(&cell.value[..line]).ok()?.parse().ok()?;
            Some(Self { term, data: cell.value[line + 1..].into() })
        };
        parsed().ok_or_else(|| {
            Error::new(ErrorKind::Conflict, "something else than the announcement of a leader is stored")
        })
    }
}

/// Whether the leader of this term still stands in its election's queue.
pub(super) async fn stands(queue: &QueueHandle, term: Token) -> Result<bool> {
    let found = queue.list(term.sequence().saturating_sub(1), 1).await?;
    Ok(found.first().is_some_and(|entry| entry.sequence == term.sequence()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contracts::Version;

    fn cell(value: &[u8]) -> Cell {
        Cell { version: Version::new(1, 1), value: value.into() }
    }

    #[test]
    fn what_was_written_is_read_back_and_nothing_else_is_a_leader() {
        for data in [&b""[..], b"a\nb", &[0, 0xff, b'\n']] {
            let leading = Leading { term: Token::new(0, 7).expect("fits"), data: data.into() };
            assert_eq!(Leading::of(&cell(&leading.to_cell())).ok(), Some(leading));
        }
        for other in [&b""[..], b"7", b"x\n", b"-1\n", b"18446744073709551615\n", b" 7\n"] {
            let error = Leading::of(&cell(other)).expect_err("something else");
            assert_eq!(error.kind(), &ErrorKind::Conflict, "{other:?}");
        }
    }
}
