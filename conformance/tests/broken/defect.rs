use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_conformance::testbed::Testbed;
use latchwork_conformance::testbeds::MemoryTestbed;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, ChangeWatch, Close, EntryPage, ExpectedLimit, Join, Joined, KeysWith,
    Leave, Node, NodeState, NodeWriter, QueueEntry, VersionedValue,
};
use latchwork_core::{Address, Capabilities, Lease, ListedKey, Page, QueuePrefix, Result, TimeToIdle};

use super::wrapper::BrokenNode;

pub(crate) type Written = Result<CellWritten>;

#[derive(Clone, Copy)]
pub(crate) struct CountChange<'a> {
    pub(crate) cell: &'a Address,
    pub(crate) request: &'a CountRequest,
    pub(crate) idle: Option<TimeToIdle>,
}

impl CountChange<'_> {
    pub(crate) async fn make(self, honest: &dyn Backend) -> Result<Option<Decided>> {
        honest.change_count(self.cell, self.request, self.idle).await
    }
}

/// Methods that a defect does not replace are honest.
#[async_trait]
pub(crate) trait Defect: Send + Sync + 'static {
    fn testbed(&self, memory: MemoryTestbed) -> Box<dyn Testbed> {
        Box::new(memory)
    }

    fn address(&self, queue: &Address, _client: usize) -> Address {
        queue.clone()
    }

    fn capabilities(&self, honest: Capabilities) -> Capabilities {
        honest
    }

    fn lease(&self, honest: Lease) -> Lease {
        honest
    }

    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        honest.close(how).await
    }

    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        honest.join(join).await
    }

    async fn abandon(&self, honest: &dyn Backend, join: &Join) -> Result<()> {
        honest.abandon(join).await
    }

    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        honest.list(queue, page).await
    }

    async fn list_keys(
        &self,
        honest: &dyn Backend,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        honest.list_keys(with, of, after, most).await
    }

    fn watch_queue(&self, honest: &Arc<dyn Backend>, queue: &Address) -> Box<dyn ChangeWatch> {
        honest.watch_queue(queue)
    }

    async fn write_data(&self, node: &BrokenNode, data: &Arc<[u8]>) -> Result<()> {
        node.honest.write_data(data).await
    }

    async fn revoke(&self, honest: &dyn Backend, queue: &Address, sequence: u64) -> Result<bool> {
        honest.revoke(queue, sequence).await
    }

    async fn set_limit(
        &self,
        honest: &dyn Backend,
        queue: &Address,
        expected: ExpectedLimit,
        limit: u32,
    ) -> Result<bool> {
        honest.set_limit(queue, expected, limit).await
    }

    async fn downgrade(&self, node: &BrokenNode) -> Result<()> {
        node.honest.downgrade().await
    }

    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        honest.read_cell(cell).await
    }

    async fn write_cell(&self, honest: &dyn Backend, cell: &Address, write: &CellWrite) -> Written {
        honest.write_cell(cell, write).await
    }

    /// A defect of writes may leave the change to core.
    async fn change_count(&self, honest: &dyn Backend, change: CountChange<'_>) -> Result<Option<Decided>> {
        change.make(honest).await
    }

    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Written {
        node.honest.write_cell(cell, write).await
    }

    async fn confirm(&self, node: &BrokenNode, replicas: u32, within: Duration) -> Result<()> {
        node.honest.confirm(replicas, within).await
    }

    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        honest.watch_cell(cell)
    }

    fn state(&self, _node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        None
    }

    fn shown<'a>(&self, node: &'a BrokenNode) -> &'a NodeState {
        match &node.own {
            Some(own) => own,
            None => node.honest.state(),
        }
    }

    fn made(&self, _node: &Arc<BrokenNode>) {}

    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        node.honest.admitted().await
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        node.honest.leave().await
    }
}
