use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::cells::{self, MemoryWatch};
use super::client::MemoryClient;
use super::link::NAME;
use super::queue::join;
use super::renewal;
use crate::address::{Address, QueuePrefix};
use crate::capabilities::{Capabilities, Eviction};
use crate::contracts::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Lease, ListedKey, QueueEntry, SequentialNodes, TimeToIdle, VersionedValue,
};
use crate::decide::count::request::{CountRequest, Decided};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::facts::{ClockDifference, Fact, Persistence, Role, ServerFacts, Topology};
use crate::listing::Page;
use crate::support::Unobserved;

pub(super) struct MemoryBackend {
    client: Arc<MemoryClient>,
}

impl MemoryBackend {
    pub(super) fn new(client: Arc<MemoryClient>) -> Self {
        renewal::start(&client);
        Self { client }
    }
}

#[async_trait]
impl SequentialNodes for MemoryBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        join::join(&self.client, join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        let (store, queue, id) = (self.client.store.clone(), join.queue.clone(), join.id);
        self.client.link.request("leave", move || store.abandon(&queue, id)).await.map(drop)
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let (store, queue) = (self.client.store.clone(), queue.clone());
        self.client.link.request("list", move || store.list(&queue, page)).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        match queue.kind().is_observed() {
            true => Box::new(MemoryWatch::new(&self.client, queue.clone())),
            false => Box::new(Unobserved::new(queue)),
        }
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let (store, queue) = (self.client.store.clone(), queue.clone());
        self.client.link.request("leave", move || store.remove(&queue, sequence)).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let (store, queue) = (self.client.store.clone(), queue.clone());
        self.client.link.request("limit", move || store.limit(&queue)).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        let (store, queue) = (self.client.store.clone(), queue.clone());
        self.client.link.request("limit", move || store.set_limit(&queue, expected, limit)).await
    }
}

#[async_trait]
impl Cells for MemoryBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        let (store, cell) = (self.client.store.clone(), cell.clone());
        let read = self.client.link.request("read", move || store.read_cell(&cell)).await;
        read.map_err(|error| match error.kind() {
            // A read changes nothing.
            ErrorKind::OutcomeUnknown => Error::new(ErrorKind::Unavailable, "no answer").because(error),
            _ => error,
        })
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        cells::write(&self.client, cell, write).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        let (store, cell, request) = (self.client.store.clone(), cell.clone(), *request);
        self.client.link.request("count", move || store.change_count(&cell, &request, idle)).await?.map(Some)
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(MemoryWatch::new(&self.client, cell.clone()))
    }
}

#[async_trait]
impl Backend for MemoryBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            clean_try: true,
            prompt_revocation: true,
            minimum_outlives_close: false,
            survives_failover: false,
            confirms_on_replicas: false,
            idle_cells: true,
            exact_addresses: true,
            held_writes: true,
            lease_left: true,
            eviction: Eviction::Never,
        }
    }

    fn lease(&self) -> Lease {
        self.client.lease()
    }

    fn incarnation(&self) -> Incarnation {
        // A store that has lost everything has lost its leases too (`Memory::wipe`).
        Incarnation::Durable
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        if with == KeysWith::Cell {
            of.check_cells()?;
        }
        let (store, of, after) =
            (self.client.store.clone(), of.clone(), after.unwrap_or_default().to_owned());
        self.client.link.request("list", move || store.list_keys(with, &of, &after, most)).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        let mut facts = ServerFacts::of("memory");
        facts.version = Fact::Told(env!("CARGO_PKG_VERSION").to_owned());
        facts.topology = Fact::Told(Topology::InProcess);
        facts.role = Fact::Told(Role::Alone);
        facts.clock = Fact::Told(ClockDifference::NONE);
        facts.memory = Fact::untold("a store has no limit, and evicts nothing");
        facts.persistence = Fact::Told(Persistence::Nothing);
        self.client.link.request("facts", move || facts).await
    }

    async fn close(&self, how: Close) -> Result<()> {
        // A client that died removes nothing when it is dropped later.
        if self.client.link.close() && how == Close::Orderly {
            let (id, lease) = self.client.current.lock().clone();
            lease.end(LostReason::Closed);
            self.client.store.end_lease(id, LostReason::Closed);
        }
        Ok(())
    }
}

impl Drop for MemoryBackend {
    fn drop(&mut self) {
        self.client.link.stop_renewal();
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").field("store", &self.client.store).finish_non_exhaustive()
    }
}
