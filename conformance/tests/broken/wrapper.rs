//! A backend that passes everything on, but for what its defect does instead.

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Leave, Node, NodeState, NodeWriter, QueueEntry, SequentialNodes, VersionedValue,
};
use latchwork_core::facts::ServerFacts;
use latchwork_core::{Address, Capabilities, Kind, Lease, ListedKey, Page, QueuePrefix, Result, TimeToIdle};

/// What a broken backend does otherwise. What is not said is honest.
#[async_trait]
pub(crate) trait Defect: fmt::Debug + Send + Sync + 'static {
    /// Whether it breaks the clients' registry and the layout too: else nothing could connect.
    fn breaks_connecting(&self) -> bool {
        false
    }

    /// Where the client of this number looks for a queue.
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

    async fn write_cell(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        write: &CellWrite,
    ) -> Result<CellWritten> {
        honest.write_cell(cell, write).await
    }

    /// The honest backend changes counts by itself. One whose writes are broken may leave it to core.
    async fn change_count(
        &self,
        honest: &dyn Backend,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        honest.change_count(cell, request, idle).await
    }

    async fn write_held(&self, node: &BrokenNode, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        node.honest.write_cell(cell, write).await
    }

    async fn confirm(&self, node: &BrokenNode, replicas: u32, within: Duration) -> Result<()> {
        node.honest.confirm(replicas, within).await
    }

    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        honest.watch_cell(cell)
    }

    /// Another state than the honest one, for a new node.
    fn state(&self, _node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        None
    }

    /// The state that a node shows now.
    fn shown<'a>(&self, node: &'a BrokenNode) -> &'a NodeState {
        match &node.own {
            Some(own) => own,
            None => node.honest.state(),
        }
    }

    /// A node was made.
    fn made(&self, _node: &Arc<BrokenNode>) {}

    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        node.honest.admitted().await
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        node.honest.leave().await
    }
}

/// What breaks the clients of one testbed.
pub(crate) fn wrap(
    defect: impl Defect,
) -> impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static {
    wrap_shared(Arc::new(defect))
}

/// The same with a defect that is shared already.
pub(crate) fn wrap_shared(
    defect: Arc<dyn Defect>,
) -> impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static {
    let clients = AtomicUsize::new(0);
    move |honest| {
        let client = clients.fetch_add(1, Ordering::AcqRel);
        Arc::new(BrokenBackend { honest, client, defect: Arc::clone(&defect) })
    }
}

#[derive(Debug)]
struct BrokenBackend {
    honest: Arc<dyn Backend>,
    client: usize,
    defect: Arc<dyn Defect>,
}

impl BrokenBackend {
    /// Whether what is asked for is honest.
    fn spares(&self, address: &Address) -> bool {
        let registry = [(Kind::Clients, "all"), (Kind::Layout, "stamp")];
        registry.contains(&(address.kind(), address.name())) && !self.defect.breaks_connecting()
    }

    fn moved(&self, join: &Join) -> Join {
        Join { queue: self.defect.address(&join.queue, self.client), ..join.clone() }
    }

    fn node(&self, join: Join, honest: Arc<dyn Node>) -> Arc<dyn Node> {
        let node = Arc::new(BrokenNode {
            own: self.defect.state(&honest),
            honest,
            join,
            again: OnceLock::new(),
            leaves: AtomicU32::new(0),
            backend: Arc::clone(&self.honest),
            defect: Arc::clone(&self.defect),
        });
        self.defect.made(&node);
        node
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl SequentialNodes for BrokenBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        if self.spares(&join.queue) {
            return self.honest.join(join).await;
        }
        let join = self.moved(join);
        Ok(match self.defect.join(&self.honest, &join).await? {
            Joined::Admitted(node) => Joined::Admitted(self.node(join, node)),
            Joined::Waiting(node) => Joined::Waiting(self.node(join, node)),
            Joined::Refused => Joined::Refused,
        })
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        if self.spares(&join.queue) {
            return self.honest.abandon(join).await;
        }
        self.defect.abandon(&*self.honest, &self.moved(join)).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        if self.spares(queue) {
            return self.honest.list(queue, page).await;
        }
        self.defect.list(&*self.honest, &self.defect.address(queue, self.client), page).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.defect.watch_queue(&self.honest, &self.defect.address(queue, self.client))
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = self.defect.address(queue, self.client);
        self.defect.revoke(&*self.honest, &queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.honest.limit(&self.defect.address(queue, self.client)).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        let queue = self.defect.address(queue, self.client);
        self.defect.set_limit(&*self.honest, &queue, expected, limit).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Cells for BrokenBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        if self.spares(cell) {
            return self.honest.read_cell(cell).await;
        }
        self.defect.read_cell(&*self.honest, &self.defect.address(cell, self.client)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        if self.spares(cell) {
            return self.honest.write_cell(cell, write).await;
        }
        self.defect.write_cell(&*self.honest, &self.defect.address(cell, self.client), write).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        if self.spares(cell) {
            return self.honest.change_count(cell, request, idle).await;
        }
        self.defect.change_count(&*self.honest, &self.defect.address(cell, self.client), request, idle).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.defect.watch_cell(&self.honest, &self.defect.address(cell, self.client))
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Backend for BrokenBackend {
    fn name(&self) -> &'static str {
        self.honest.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.defect.capabilities(self.honest.capabilities())
    }

    fn lease(&self) -> Lease {
        self.defect.lease(self.honest.lease())
    }

    fn incarnation(&self) -> Incarnation {
        self.honest.incarnation()
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        self.defect.list_keys(&*self.honest, with, of, after, most).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.honest.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.defect.close(&*self.honest, how).await
    }
}

/// A node of a broken backend.
pub(crate) struct BrokenNode {
    pub(crate) honest: Arc<dyn Node>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) join: Join,
    /// How often it was left.
    pub(crate) leaves: AtomicU32,
    /// The state that is shown instead of the honest one.
    pub(crate) own: Option<Arc<NodeWriter>>,
    /// A second node, for a waiter that joins again.
    pub(crate) again: OnceLock<Arc<dyn Node>>,
    defect: Arc<dyn Defect>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Node for BrokenNode {
    fn state(&self) -> &NodeState {
        self.defect.shown(self)
    }

    async fn admitted(&self) -> Result<()> {
        self.defect.admitted(self).await
    }

    async fn leave(&self) -> Result<Leave> {
        self.leaves.fetch_add(1, Ordering::AcqRel);
        self.defect.leave(self).await
    }

    async fn downgrade(&self) -> Result<()> {
        self.defect.downgrade(self).await
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        self.defect.write_data(self, data).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.defect.write_held(self, cell, write).await
    }

    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()> {
        self.defect.confirm(self, replicas, within).await
    }
}

impl fmt::Debug for BrokenNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokenNode")
            .field("honest", &self.honest)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}
