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

    pub(super) fn gone(&self) -> Error {
        self.state.lost().map_or(Ended::Released, Ended::Lost).error()
    }

    fn lost_or(&self, error: Error) -> Error {
        match self.state.lost() {
            Some(reason) if error.kind() == ErrorKind::Unavailable => Error::lost(reason).because(error),
            _ => error,
        }
    }
}
