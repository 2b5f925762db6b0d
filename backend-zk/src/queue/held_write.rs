//! A write of a cell while a node stands (CELL-HELD).
//!
//! The transaction that writes the cell begins with a check that the node's path is there. Only this
//! node is ever at that path while the transaction can still arrive. An id comes back to the same
//! queue only after a leave, and the leave is sent behind the write: a server carries out the
//! requests of a session in their order, and refuses what comes late on an earlier connection.
//!
//! A writer that is being downgraded may have either of two paths. A write that is refused for the
//! one has made nothing, and is tried for the other.

use latchwork_core::backend::{CellWrite, CellWritten};
use latchwork_core::{Address, Ended, Error, ErrorKind, Result};

use super::zk_node::ZkNode;
use crate::cells;

impl ZkNode {
    pub(super) async fn write_while_held(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let written = self.at_any_path(|path| async move {
            match self.state.lost() {
                Some(reason) => Err(Error::lost(reason)),
                None => cells::write(&self.session.lease, cell, write, Some(&path)).await,
            }
        });
        if let Some(written) = written.await.map_err(|error| self.lost_or(error))? {
            return Ok(written);
        }
        self.removed();
        Err(self.gone())
    }

    /// What a write answers that finds no node: the loss, or the release by its holder.
    pub(super) fn gone(&self) -> Error {
        self.state.lost().map_or(Ended::Released, Ended::Lost).error()
    }

    /// The loss, where the write was surely not made: the session's end then is why.
    fn lost_or(&self, error: Error) -> Error {
        match self.state.lost() {
            Some(reason) if error.kind() == ErrorKind::Unavailable => Error::lost(reason).because(error),
            _ => error,
        }
    }
}
