use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{CellWrite, CellWritten, Leave, Node, NodeState, no_replicas};
use latchwork_core::{Address, Result};

use super::wait::Wait;
use super::zk_node::ZkNode;

#[async_trait]
impl Node for ZkNode {
    fn state(&self) -> &NodeState {
        &self.state
    }

    async fn admitted(&self) -> Result<()> {
        Wait::of(self).until_admitted().await
    }

    async fn leave(&self) -> Result<Leave> {
        self.leave_queue().await
    }

    async fn downgrade(&self) -> Result<()> {
        self.become_reader().await
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        self.replace_data(data).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.write_while_held(cell, write).await
    }

    async fn confirm(&self, _replicas: u32, _within: Duration) -> Result<()> {
        no_replicas()
    }
}

impl fmt::Debug for ZkNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkNode").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}
