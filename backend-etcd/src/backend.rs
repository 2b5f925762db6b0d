//! The contracts' traits, implemented on the client.

use std::fmt;

use async_trait::async_trait;
use latchwork_core::contracts::{
    Backend, Cell, CellWatch, CellWrite, CellWritten, Cells, Close, Entry, Incarnation, Join, Joined, Lease,
    Leave, Node, NodeState, Page, SequentialNodes,
};
use latchwork_core::decide::{Claim, admitted_prefix};
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Eviction, Result};

use crate::cells::{self, EtcdCellWatch};
use crate::client::Client;
use crate::driver::{Compare, Driver, Op, Order, Range, StoredKey, Txn};
use crate::error::Failure;
use crate::layout::{NodeData, Queue, cell_key};
use crate::queue::limit::stored_limit;
use crate::queue::list::{self, Member};
use crate::queue::node::EtcdNode;
use crate::queue::{join, leave, wait};

/// How many values one request of a listing reads: each is as large as a request may be, at most.
const VALUES: usize = 32;

/// A client of etcd: one channel, one lease for all its nodes, one stream of watches.
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

    /// The keys of a queue, for a client that is open.
    fn queue(&self, address: &Address) -> Result<Queue> {
        self.check_open()?;
        self.client.layout.queue(address)
    }

    fn check_open(&self) -> Result<()> {
        match self.client.nodes.leases.is_closed() {
            true => Err(Error::closed()),
            false => Ok(()),
        }
    }

    /// Reads the data of these nodes. Values of other programs are not read: they may be large, and
    /// mean nothing here.
    async fn data(&self, queue: &Queue, of: impl Iterator<Item = &Member>) -> Result<Vec<NodeData>> {
        let keys: Vec<_> = of.map(|member| member.key.clone()).collect();
        let ours: Vec<_> = keys.iter().filter(|key| queue.is_ours(key)).cloned().map(Op::Get).collect();
        let mut reads = match ours.is_empty() {
            true => Vec::new(),
            false => self.driver().read(ours).await?.reads,
        }
        .into_iter();
        Ok(keys
            .iter()
            .map(|key| {
                let read = if queue.is_ours(key) { reads.next() } else { None };
                // Without a value the node has left since the listing, or is another program's.
                let value = read.and_then(|found| found.keys.into_iter().next()).map(|stored| stored.value);
                NodeData::read(key, &value.unwrap_or_default())
            })
            .collect())
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

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        let queue = self.queue(queue)?;
        // As for a reader, since that reads the whole queue.
        let (listing, limit) = list::read(self.driver(), &queue, Claim::Shared, Order::Oldest).await?;
        let claims: Vec<_> = listing.members.iter().map(|member| member.claim).collect();
        let marked = listing.members.iter().rposition(|member| member.marked).map_or(0, |last| last + 1);
        let admitted = admitted_prefix(&claims, marked, limit.permits().unwrap_or(0));
        let shown = listing.members.iter().enumerate().filter(|(_, member)| member.created > page.after);
        let shown: Vec<_> = shown.take(page.most).collect();
        let mut entries = Vec::with_capacity(shown.len());
        for part in shown.chunks(VALUES) {
            let data = self.data(&queue, part.iter().map(|(_, member)| *member)).await?;
            entries.extend(part.iter().zip(data).map(|((at, member), data)| Entry {
                sequence: member.created,
                claim: member.claim,
                admitted: *at < admitted,
                label: data.label.to_string(),
                age: data.age(),
            }));
        }
        Ok(entries)
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = self.queue(queue)?;
        let order = Order::CreatedAt(sequence);
        let range = Range { prefix: queue.prefix.clone(), order, limit: 0, keys_only: true };
        let (found, _) = self.driver().range(range).await?;
        let mut was_there = false;
        // One key, unless another program's transaction created several.
        for StoredKey { key, .. } in found.keys.into_iter().filter(|stored| queue.claim(stored).is_some()) {
            let delete = Txn::when(Compare::Created(key.clone(), sequence), vec![Op::Delete(key)]);
            was_there |= self.driver().txn(delete).await?.succeeded;
        }
        Ok(was_there)
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let queue = self.queue(queue)?;
        let read = self.driver().read(vec![Op::Get(queue.limit.into())]).await?;
        stored_limit(read.reads.first()).known()
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        let queue = self.queue(queue)?;
        // Without a lease: a stored limit stays.
        let put = Op::Put { key: queue.limit, value: limit.to_string().into_bytes(), lease: 0 };
        match self.driver().txn(Txn::always(vec![put])).await {
            Err(Failure::Full(error)) => {
                Err(Error::new(ErrorKind::Unknown, "a full server may have stored it").because(error))
            }
            answer => Ok(answer.map(drop)?),
        }
    }
}

#[async_trait]
impl Cells for EtcdBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<Cell>> {
        self.check_open()?;
        cells::read(self.driver(), &cell_key(cell)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.check_open()?;
        cells::write(self.driver(), &cell_key(cell), write).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn CellWatch> {
        Box::new(EtcdCellWatch::new(&self.client.nodes, &cell_key(cell)))
    }
}

#[async_trait]
impl Backend for EtcdBackend {
    fn name(&self) -> &'static str {
        "etcd"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            clean_try: true,
            prompt_revocation: true,
            minimum_outlives_close: false,
            survives_failover: true,
            exact_addresses: true,
            eviction: Eviction::Never,
        }
    }

    fn lease(&self) -> Lease {
        self.client.nodes.leases.current().lease.lease().clone()
    }

    fn incarnation(&self) -> Incarnation {
        // A write is confirmed once a majority of the members has it on disk.
        Incarnation::Durable
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

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        cells::write_held(self, &cell_key(cell), write).await
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
