//! An own node, as the contracts and the holder watch use it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use latchwork_core::backend::{CellWrite, CellWritten, Leave, Node, NodeState, no_replicas};
use latchwork_core::{Address, Result};

use super::admission::mark_admitted;
use super::fast_path::verify_admission;
use super::wait::Wait;
use super::zk_node::{DowngradeState, ZkNode};
use crate::driver::Driver;
use crate::watch::HeldNode;

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

impl HeldNode for ZkNode {
    fn driver(&self) -> &Driver {
        &self.session.driver
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn paths(&self) -> Vec<String> {
        self.paths()
    }

    fn may_be_downgraded(&self) -> bool {
        self.downgrade_state() != DowngradeState::None
    }

    fn limit_path(&self) -> Option<&str> {
        self.limit.as_deref()
    }

    fn is_leaving(&self) -> bool {
        self.is_leaving()
    }

    fn removed(&self) {
        self.removed();
    }

    fn mark_admitted(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(mark_admitted(Arc::downgrade(&self)))
    }

    fn verify_admission(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(verify_admission(Arc::downgrade(&self)))
    }
}

impl fmt::Debug for ZkNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZkNode").field("path", &self.path).field("state", &self.state).finish_non_exhaustive()
    }
}
