use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::backend::decide::count::request::{CountRequest, Decided};
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, QueueEntry, SequentialNodes, Unobserved, VersionedValue,
};
use latchwork_core::facts::ServerFacts;
use latchwork_core::{
    Address, Capabilities, Error, ErrorKind, Eviction, Lease, ListedKey, Page, QueuePrefix, Result,
    TimeToIdle,
};

use crate::cells::access;
use crate::client::Client;
use crate::config::NAME;
use crate::layout::{CellKey, QueueKeys};
use crate::queue::{cleanup, join, limit, list};
use crate::watch::{RedisWatch, Subject};
use crate::{facts, walk};

/// A client of a Redis server or a Redis Cluster: one connection to each server, one task that renews all
/// nodes and cells.
pub struct RedisBackend {
    client: Arc<Client>,
    eviction: Eviction,
}

impl RedisBackend {
    pub(crate) fn new(client: Arc<Client>, eviction: Eviction) -> Self {
        Self { client, eviction }
    }
}

#[async_trait]
impl SequentialNodes for RedisBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        join::join(&self.client, join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        join::abandon(&self.client, join).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        list::list(&self.client, queue, page).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        match queue.kind().is_observed() {
            true => Box::new(RedisWatch::new(&self.client, QueueKeys::of(queue).map(Subject::Queue))),
            false => Box::new(Unobserved::new(queue)),
        }
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        list::revoke(&self.client, queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        limit::limit(&self.client, queue).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        limit::set_limit(&self.client, queue, expected, limit).await
    }
}

#[async_trait]
impl Cells for RedisBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        access::read(&self.client, cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let refused = || {
            Error::new(
                ErrorKind::Misconfigured,
                "the server refused a write because of a lost hold, but this write depends on no hold",
            )
        };
        access::write(&self.client, cell, write, None).await?.ok_or_else(refused)
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        access::change_count(&self.client, cell, request, idle).await.map(Some)
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(RedisWatch::new(&self.client, CellKey::of(cell).map(Subject::Cell)))
    }
}

#[async_trait]
impl Backend for RedisBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: true,
            clean_try: true,
            prompt_revocation: false,
            minimum_outlives_close: true,
            survives_failover: false,
            confirms_on_replicas: true,
            idle_cells: true,
            exact_addresses: true,
            held_writes: !self.client.driver.is_cluster(),
            lease_left: true,
            eviction: self.eviction,
        }
    }

    fn lease(&self) -> Lease {
        self.client.lease.current()
    }

    fn incarnation(&self) -> Incarnation {
        self.client.driver.run_id().map_or(Incarnation::Unknown, Incarnation::Started)
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        walk::page(&self.client, of, with, (after, most)).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        facts::read(&self.client).await
    }

    async fn close(&self, how: Close) -> Result<()> {
        cleanup::close(&self.client, how).await
    }
}

impl fmt::Debug for RedisBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisBackend")
            .field("driver", &self.client.driver)
            .field("lease", &self.lease())
            .finish()
    }
}
