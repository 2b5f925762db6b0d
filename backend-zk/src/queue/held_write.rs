//! A write of a cell while a node exists (CELL-HELD).
//!
//! The transaction that writes the cell first checks that the node's path exists. Only this node
//! has that path while the transaction can still arrive. The same queue gets an id again only after
//! a leave, and the leave is sent after the write: a server carries out the requests of a session
//! in their order, and refuses late requests of an earlier connection.
//!
//! A writer that is being downgraded may have either of two paths. A write that is refused for one
//! path has written nothing, and is tried with the other path.

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

    /// The error of a write that finds no node: the loss, or the release by its holder.
    pub(super) fn gone(&self) -> Error {
        self.state.lost().map_or(Ended::Released, Ended::Lost).error()
    }

    /// The loss, if the write was certainly not carried out because the session has ended.
    fn lost_or(&self, error: Error) -> Error {
        match self.state.lost() {
            Some(reason) if error.kind() == ErrorKind::Unavailable => Error::lost(reason).because(error),
            _ => error,
        }
    }
}
