use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::config::NAME;
use crate::driver::{Compare, Driver, Op, Order, StoredKey, Txn};
use crate::layout::{DataPlace, Queue, beside, cell_key};
use crate::queue::node::EtcdNode;
use crate::queue::{data, join, leases, leave, limit, list, queues, wait};
use crate::watch::{EtcdChangeWatch, Watched};
use crate::{cells, facts};
use async_trait::async_trait;
use latchwork_core::backend::decide::admitted_prefix;
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Leave, Node, NodeState, QueueEntry, SequentialNodes, Unobserved, VersionedValue,
    no_replicas,
};
use latchwork_core::facts::ServerFacts;
use latchwork_core::{
    Address, Capabilities, Claim, Error, Eviction, Lease, ListedKey, Page, QueuePrefix, Result,
};

/// A client of an etcd cluster: one channel, one lease for all its nodes, one stream of watches.
pub struct EtcdBackend {
    client: Client,
}

impl EtcdBackend {
    pub(crate) fn new(client: Client) -> Self {
        Self { client }
    }

    fn driver(&self) -> &Driver {
        &self.client.nodes.driver
    }

    fn queue(&self, address: &Address) -> Result<Queue> {
        self.check_open()?;
        self.client.layout.queue(address)
    }

    fn watch(&self, of: Result<Watched>) -> Box<dyn ChangeWatch> {
        let nodes = &self.client.nodes;
        let (driver, closed) = (nodes.driver.clone(), nodes.leases.closed.clone());
        Box::new(EtcdChangeWatch::new(driver, Arc::clone(&nodes.watches), closed, of))
    }

    fn check_open(&self) -> Result<()> {
        match self.client.nodes.leases.is_closed() {
            true => Err(Error::closed()),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl SequentialNodes for EtcdBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        join::join(&self.client.nodes, self.client.layout.queue(&join.queue)?, join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        leave::abandon(&self.client.nodes, &self.client.layout.queue(&join.queue)?, join).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let queue = self.queue(queue)?;
        // Reads the whole queue, as a reader does.
        let (listing, limit) = list::read(self.driver(), &queue, Claim::Shared, Order::Oldest).await?;
        let claims: Vec<_> = listing.members.iter().map(|member| member.claim).collect();
        let marked = listing.members.iter().rposition(|member| member.marked).map_or(0, |last| last + 1);
        let admitted = admitted_prefix(&claims, marked, limit.permits().unwrap_or(0));
        let mut behind = listing.members.iter().enumerate().filter(|(_, member)| member.created > page.after);
        let (mut entries, mut leases) = (Vec::new(), Vec::new());
        while entries.len() < page.most {
            let part: Vec<_> = behind.by_ref().take(data::VALUES.min(page.most - entries.len())).collect();
            if part.is_empty() {
                break;
            }
            let members: Vec<_> = part.iter().map(|(_, member)| *member).collect();
            let values = data::read(self.driver(), &queue, &members).await?;
            // Later nodes take the places of nodes that have left since the listing.
            entries.extend(part.into_iter().zip(values).filter_map(|((at, member), value)| {
                let (node, data) = value?;
                leases.push(member.lease);
                Some(QueueEntry {
                    sequence: member.created,
                    claim: member.claim,
                    admitted: at < admitted,
                    label: node.label.to_string(),
                    age: node.age(),
                    lease_left: None,
                    data,
                })
            }));
        }
        if page.leases {
            leases::tell(self.driver(), &mut entries, &leases).await?;
        }
        Ok(entries)
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        if !queue.kind().is_observed() {
            return Box::new(Unobserved::new(queue));
        }
        self.watch(
            self.client.layout.queue(queue).map(|queue| Watched { key: queue.prefix, is_prefix: true }),
        )
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = self.queue(queue)?;
        let order = Order::CreatedAt(sequence);
        let (found, _) = self.driver().range(list::nodes(&queue, order, 0)).await?;
        let mut was_there = false;
        // One key, unless a transaction of another program created several.
        for StoredKey { key, .. } in found.keys.into_iter().filter(|stored| queue.claim(stored).is_some()) {
            let mut deletes = vec![Op::Delete(key.clone())];
            if queue.data_place_of(&key) == DataPlace::Beside {
                deletes.push(Op::Delete(beside(&key)));
            }
            let delete = Txn::when(Compare::Created(key, sequence), deletes);
            was_there |= self.driver().txn(delete).await?.succeeded;
        }
        Ok(was_there)
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        limit::read(self.driver(), &self.queue(queue)?).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        limit::set(self.driver(), &self.queue(queue)?, expected, limit).await
    }
}

#[async_trait]
impl Cells for EtcdBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        self.check_open()?;
        cells::read(&self.client.nodes, &cell_key(cell)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.check_open()?;
        cells::write(&self.client.nodes, &cell_key(cell), write).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.watch(Ok(Watched { key: cell_key(cell), is_prefix: false }))
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            clean_try: true,
            prompt_revocation: true,
            minimum_outlives_close: false,
            survives_failover: true,
            confirms_on_replicas: false,
            idle_cells: true,
            exact_addresses: true,
            held_writes: true,
            lease_left: true,
            eviction: Eviction::Never,
        }
    }

    fn lease(&self) -> Lease {
        self.client.nodes.leases.current().lease.lease().clone()
    }

    fn incarnation(&self) -> Incarnation {
        Incarnation::Durable
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        self.check_open()?;
        match with {
            KeysWith::Nodes => queues::page(self.driver(), &self.client.layout, of, after, most).await,
            KeysWith::Limit => limit::queues(self.driver(), of, after, most).await,
            KeysWith::Cell => cells::page(self.driver(), of, after, most).await,
        }
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.check_open()?;
        facts::read(self.driver()).await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.client.close(how).await
    }
}

#[async_trait]
impl Node for EtcdNode {
    fn state(&self) -> &NodeState {
        &self.own.state
    }

    async fn admitted(&self) -> Result<()> {
        wait::until_admitted(self).await
    }

    async fn leave(&self) -> Result<Leave> {
        leave::leave(self).await
    }

    async fn downgrade(&self) -> Result<()> {
        EtcdNode::downgrade(self).await
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        self.replace_data(data).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        cells::write_held(self, &cell_key(cell), write).await
    }

    async fn confirm(&self, _replicas: u32, _within: Duration) -> Result<()> {
        no_replicas()
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdBackend")
            .field("lease", &self.lease())
            .field("watches", &self.client.nodes.watches)
            .finish()
    }
}
