use std::fmt;
use std::sync::Arc;

use crate::change_watch::{Watched, ZkChangeWatch};
use crate::client::Client;
use crate::config::NAME;
use crate::{cells, facts, queue};
use async_trait::async_trait;
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, QueueEntry, SequentialNodes, Unobserved, VersionedValue,
};
use latchwork_core::facts::ServerFacts;
use latchwork_core::{Address, Capabilities, Error, Eviction, Lease, ListedKey, Page, QueuePrefix, Result};

/// A client of a ZooKeeper ensemble. All its nodes belong to one session; further sessions only watch.
pub struct ZooKeeperBackend {
    pub(crate) client: Arc<Client>,
}

#[async_trait]
impl SequentialNodes for ZooKeeperBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        queue::join(&self.client.session().await?, join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        queue::abandon(&self.client.current(), join).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        queue::list(&*self.client.session().await?, queue, page).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        if !queue.kind().is_observed() {
            return Box::new(Unobserved::new(queue));
        }
        Box::new(ZkChangeWatch::new(&self.client, Watched::Queue, queue))
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        queue::revoke(&*self.client.session().await?, queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        queue::limit(&*self.client.session().await?, queue).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        queue::set_limit(&*self.client.session().await?, queue, expected, limit).await
    }
}

#[async_trait]
impl Cells for ZooKeeperBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        cells::read(&self.client.session().await?.lease, cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let written = cells::write(&self.client.session().await?.lease, cell, write, None).await?;
        written.ok_or_else(Error::closed)
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(ZkChangeWatch::new(&self.client, Watched::Cell, cell))
    }
}

#[async_trait]
impl Backend for ZooKeeperBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            // A refused try leaves a node for a moment, which may fail another try.
            clean_try: false,
            prompt_revocation: true,
            minimum_outlives_close: false,
            survives_failover: true,
            confirms_on_replicas: false,
            idle_cells: self.client.current().lease.cell_uses.is_some(),
            exact_addresses: true,
            held_writes: true,
            // Only the leader knows a session's timeout and its last contact.
            lease_left: false,
            eviction: Eviction::Never,
        }
    }

    fn lease(&self) -> Lease {
        self.client.current().writer().lease().clone()
    }

    fn incarnation(&self) -> Incarnation {
        // A write is confirmed once a majority of the servers has it on disk.
        Incarnation::Durable
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        let session = self.client.session().await?;
        match with {
            KeysWith::Nodes => queue::queues(&session, of, after, most).await,
            KeysWith::Limit => queue::limited(&session, of, after, most).await,
            KeysWith::Cell => cells::page(&session.lease, of, after, most).await,
        }
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        facts::read(&*self.client.session().await?).await
    }

    async fn close(&self, how: Close) -> Result<()> {
        match how {
            Close::Orderly => self.client.close().await,
            Close::Abrupt => {
                self.client.kill().await;
                Ok(())
            }
        }
    }
}

impl Drop for ZooKeeperBackend {
    fn drop(&mut self) {
        self.client.end();
    }
}

impl fmt::Debug for ZooKeeperBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ZooKeeperBackend")
            .field("hosts", &self.client.settings.hosts)
            .field("session", &self.client.current())
            .finish_non_exhaustive()
    }
}
