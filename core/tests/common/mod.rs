mod clients;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Leave, Node, NodeState, QueueEntry, SequentialNodes, VersionedValue,
};
use latchwork_core::facts::ServerFacts;
use latchwork_core::memory::{Link, Memory};
use latchwork_core::{
    Address, Capabilities, Config, Coordinator, Error, ErrorKind, Lease, ListedKey, Page, QueuePrefix,
    Result, TimeToIdle,
};

pub(crate) use self::clients::{
    Clients, Stored, clients, connected, connected_to, fails, private, registered,
};

/// Runs before a call of the memory backend, or instead of it.
#[async_trait]
pub(crate) trait Plant: Debug + Send + Sync + 'static {
    fn capabilities(&self, real: Capabilities) -> Capabilities {
        real
    }

    fn incarnation(&self, real: Incarnation) -> Incarnation {
        real
    }

    async fn before_join(&self) -> Result<()> {
        Ok(())
    }

    async fn before_abandon(&self) -> Result<()> {
        Ok(())
    }

    async fn before_downgrade(&self) -> Result<()> {
        Ok(())
    }

    async fn before_write_data(&self) -> Result<()> {
        Ok(())
    }

    async fn leave(&self, node: &dyn Node) -> Result<Leave> {
        node.leave().await
    }

    async fn before_change(&self) {}

    async fn before_close(&self) {}

    async fn confirm(&self, node: &dyn Node, replicas: u32, within: Duration) -> Result<()> {
        node.confirm(replicas, within).await
    }

    fn list(&self, entries: Vec<QueueEntry>) -> Vec<QueueEntry> {
        entries
    }

    fn refuses_cells(&self) -> bool {
        false
    }

    fn changes_counts(&self) -> bool {
        true
    }

    fn read(&self, cell: Option<VersionedValue>) -> Option<VersionedValue> {
        cell
    }
}

#[derive(Debug)]
struct Planted<P> {
    inner: Arc<dyn Backend>,
    plant: Arc<P>,
}

#[derive(Debug)]
struct PlantedNode<P> {
    inner: Arc<dyn Node>,
    plant: Arc<P>,
}

pub(crate) fn planted(store: &Memory, config: &Config, plant: &Arc<impl Plant>) -> (Coordinator, Link) {
    let (inner, link) = store.client(config).expect("connected");
    (Coordinator::new(planted_on(inner, plant), config), link)
}

pub(crate) fn planted_on(inner: Arc<dyn Backend>, plant: &Arc<impl Plant>) -> Arc<dyn Backend> {
    Arc::new(Planted { inner, plant: Arc::clone(plant) })
}

#[async_trait]
impl<P: Plant> SequentialNodes for Planted<P> {
    async fn join(&self, join: &Join) -> Result<Joined> {
        self.plant.before_join().await?;
        let wrap = |inner| Arc::new(PlantedNode { inner, plant: Arc::clone(&self.plant) });
        Ok(match self.inner.join(join).await? {
            Joined::Admitted(node) => Joined::Admitted(wrap(node)),
            Joined::Waiting(node) => Joined::Waiting(wrap(node)),
            Joined::Refused => Joined::Refused,
        })
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        self.plant.before_abandon().await?;
        self.inner.abandon(join).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        Ok(self.plant.list(self.inner.list(queue, page).await?))
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.inner.watch_queue(queue)
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.inner.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.inner.limit(queue).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        self.plant.before_change().await;
        self.inner.set_limit(queue, expected, limit).await
    }
}

#[async_trait]
impl<P: Plant> Cells for Planted<P> {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        Ok(self.plant.read(self.inner.read_cell(cell).await?))
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.plant.before_change().await;
        if self.plant.refuses_cells() {
            return Err(Error::new(ErrorKind::Unavailable, "the memory is full"));
        }
        self.inner.write_cell(cell, write).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        self.plant.before_change().await;
        if !self.plant.changes_counts() {
            return Ok(None);
        }
        self.inner.change_count(cell, request, idle).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.inner.watch_cell(cell)
    }
}

#[async_trait]
impl<P: Plant> Backend for Planted<P> {
    fn name(&self) -> &'static str {
        "planted"
    }

    fn capabilities(&self) -> Capabilities {
        self.plant.capabilities(self.inner.capabilities())
    }

    fn lease(&self) -> Lease {
        self.inner.lease()
    }

    fn incarnation(&self) -> Incarnation {
        self.plant.incarnation(self.inner.incarnation())
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        self.inner.list_keys(with, of, after, most).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.inner.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.plant.before_close().await;
        self.inner.close(how).await
    }
}

#[async_trait]
impl<P: Plant> Node for PlantedNode<P> {
    fn state(&self) -> &NodeState {
        self.inner.state()
    }

    async fn admitted(&self) -> Result<()> {
        self.inner.admitted().await
    }

    async fn leave(&self) -> Result<Leave> {
        self.plant.leave(&*self.inner).await
    }

    async fn downgrade(&self) -> Result<()> {
        self.plant.before_downgrade().await?;
        self.inner.downgrade().await
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        self.plant.before_write_data().await?;
        self.inner.write_data(data).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.inner.write_cell(cell, write).await
    }
    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()> {
        self.plant.confirm(&*self.inner, replicas, within).await
    }
}
