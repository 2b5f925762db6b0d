use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{
    Backend, CellWrite, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join, Joined,
    KeysWith, Leave, Node, NodeState, NodeWriter, QueueEntry, SequentialNodes, VersionedValue,
};
use latchwork_core::facts::ServerFacts;
use latchwork_core::{Address, Capabilities, Kind, Lease, ListedKey, Page, QueuePrefix, Result, TimeToIdle};

use super::defect::{CountChange, Defect, Written};

pub(crate) const ALL: EntryPage = EntryPage::new(0, 1000);

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Reach {
    /// Without the clients' registry and the layout: otherwise most clients could not connect.
    Recipes,
    Everything,
}

pub(crate) fn wrap(
    defect: Arc<dyn Defect>,
    reach: Reach,
) -> impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static {
    let clients = AtomicUsize::new(0);
    move |honest| {
        let client = clients.fetch_add(1, Ordering::AcqRel);
        Arc::new(BrokenBackend { honest, client, defect: Arc::clone(&defect), reach })
    }
}

struct BrokenBackend {
    honest: Arc<dyn Backend>,
    client: usize,
    defect: Arc<dyn Defect>,
    reach: Reach,
}

impl fmt::Debug for BrokenBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokenBackend").field("honest", &self.honest).finish_non_exhaustive()
    }
}

impl BrokenBackend {
    fn moved(&self, address: &Address) -> Address {
        self.defect.address(address, self.client)
    }

    /// `None`: the defect does not reach this address.
    fn reached(&self, address: &Address) -> Option<Address> {
        let registry = [(Kind::Clients, "all"), (Kind::Layout, "stamp")];
        let spared = registry.contains(&(address.kind(), address.name())) && self.reach == Reach::Recipes;
        (!spared).then(|| self.moved(address))
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
        let Some(queue) = self.reached(&join.queue) else { return self.honest.join(join).await };
        let join = Join { queue, ..join.clone() };
        Ok(match self.defect.join(&self.honest, &join).await? {
            Joined::Admitted(node) => Joined::Admitted(self.node(join, node)),
            Joined::Waiting(node) => Joined::Waiting(self.node(join, node)),
            Joined::Refused => Joined::Refused,
        })
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        let Some(queue) = self.reached(&join.queue) else { return self.honest.abandon(join).await };
        self.defect.abandon(&*self.honest, &Join { queue, ..join.clone() }).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let Some(queue) = self.reached(queue) else { return self.honest.list(queue, page).await };
        self.defect.list(&*self.honest, &queue, page).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.defect.watch_queue(&self.honest, &self.moved(queue))
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.defect.revoke(&*self.honest, &self.moved(queue), sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.honest.limit(&self.moved(queue)).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        self.defect.set_limit(&*self.honest, &self.moved(queue), expected, limit).await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Cells for BrokenBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        let Some(cell) = self.reached(cell) else { return self.honest.read_cell(cell).await };
        self.defect.read_cell(&*self.honest, &cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Written {
        let Some(cell) = self.reached(cell) else { return self.honest.write_cell(cell, write).await };
        self.defect.write_cell(&*self.honest, &cell, write).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        let Some(reached) = self.reached(cell) else {
            return self.honest.change_count(cell, request, idle).await;
        };
        self.defect.change_count(&*self.honest, CountChange { cell: &reached, request, idle }).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.defect.watch_cell(&self.honest, &self.moved(cell))
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

pub(crate) struct BrokenNode {
    pub(crate) honest: Arc<dyn Node>,
    pub(crate) backend: Arc<dyn Backend>,
    pub(crate) join: Join,
    pub(crate) leaves: AtomicU32,
    pub(crate) own: Option<Arc<NodeWriter>>,
    /// A second node, for a waiter that joins again.
    pub(crate) again: OnceLock<Arc<dyn Node>>,
    defect: Arc<dyn Defect>,
}

impl BrokenNode {
    pub(crate) fn sequence(&self) -> u64 {
        self.honest.state().sequence()
    }

    pub(crate) async fn listed(&self) -> Result<Vec<QueueEntry>> {
        self.backend.list(&self.join.queue, ALL).await
    }
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

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Written {
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
