//! The client, with its lease and its nodes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::table::Table;
use crate::watches::TableWatch;
use crate::wire::{Site, Wire};
use async_trait::async_trait;
use latchwork_core::backend::decide::queue::Answer;
use latchwork_core::backend::decide::{recheck, renewal_period};
use latchwork_core::backend::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, LeaseWriter, Leave, Node, NodeId, NodeState, NodeWriter, QueueEntry, SequentialNodes,
    Unobserved, VersionedValue, no_replicas,
};
use latchwork_core::facts::{Fact, Persistence, ServerFacts, Topology};
use latchwork_core::{
    Address, Capabilities, CellLife, Claim, Clock, Config, Connector, Error, Eviction, Lease, ListedKey,
    LostReason, Moment, Page, QueuePrefix, Result,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

const SOON: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct TableNode {
    pub(crate) queue: Address,
    pub(crate) id: NodeId,
    claim: Claim,
    pub(crate) label: Arc<str>,
    pub(crate) data: Mutex<Arc<[u8]>>,
    pub(crate) state: NodeWriter,
    // Another request of its join may still be under way.
    repeated: AtomicBool,
    // A node that has left is not lost.
    left: AtomicBool,
    pub(crate) woken: Notify,
    client: Weak<Client>,
}

impl TableNode {
    pub(crate) fn new(join: &Join, state: NodeWriter, client: Weak<Client>) -> Self {
        let Join { queue, id, claim, label, data, .. } = join.clone();
        let (repeated, left, woken) = (AtomicBool::new(false), AtomicBool::new(false), Notify::new());
        Self { queue, id, claim, label, data: Mutex::new(data), state, repeated, left, woken, client }
    }

    pub(crate) fn asked_by(&self, join: &Join) {
        self.repeated.fetch_or(join.repeated, Ordering::AcqRel);
    }

    fn client(&self) -> Result<Arc<Client>> {
        self.client.upgrade().ok_or_else(Error::closed)
    }

    fn revoked(&self) -> Error {
        if !self.left.load(Ordering::Acquire) {
            self.state.gone(LostReason::Revoked);
        }
        Error::lost(self.state.lost().unwrap_or(LostReason::Revoked))
    }
}

#[async_trait]
impl Node for TableNode {
    fn state(&self) -> &NodeState {
        &self.state
    }

    async fn admitted(&self) -> Result<()> {
        let (id, sequence, lease) = (self.id, self.state.sequence(), self.state.lease());
        let period = renewal_period(lease.ttl());
        loop {
            if let Some(reason) = self.state.lost() {
                return Err(Error::lost(reason));
            }
            let queue = self.queue.clone();
            let look = move |table: &mut Table, now| {
                table.on(&queue, |queue| {
                    let told = queue.prune(now);
                    (if queue.holds(id, sequence) { queue.answer(sequence) } else { Answer::Gone }, told)
                })
            };
            let now = lease.clock().now();
            let next = match self.client()?.wire.send(look).await {
                Ok(Answer::Admitted { .. }) => return Ok(()),
                Ok(Answer::Waiting { ahead_expires, .. }) => {
                    recheck(now + period, Moment::from_nanos(ahead_expires * 1_000))
                }
                Ok(Answer::Conflict { stored }) => return Err(self.claim.outweighs(&stored.into())),
                Ok(_) => {
                    self.state.gone(LostReason::Revoked);
                    continue;
                }
                Err(error) if error.may_pass() => now + period / 4,
                Err(error) => return Err(error),
            };
            // A wake-up may be lost (NODE-NO-LOST-WAKE).
            tokio::select! {
                () = self.woken.notified() => {}
                _ = self.state.until_lost() => {}
                () = lease.clock().sleep_until(next) => {}
            }
        }
    }

    async fn leave(&self) -> Result<Leave> {
        let (queue, id, tombstone) = (self.queue.clone(), self.id, self.repeated.load(Ordering::Acquire));
        let leave = move |table: &mut Table, now| table.leave(now, &queue, id, tombstone);
        let was_there = self.client()?.wire.send(leave).await?;
        self.left.store(true, Ordering::Release);
        Ok(Leave::of(was_there))
    }

    async fn downgrade(&self) -> Result<()> {
        let (queue, id, sequence) = (self.queue.clone(), self.id, self.state.sequence());
        let turn = move |table: &mut Table, now| table.on(&queue, |queue| queue.downgrade(now, id, sequence));
        match self.client()?.wire.send(turn).await? {
            true => Ok(()),
            false => Err(self.revoked()),
        }
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        let (queue, id, data) = (self.queue.clone(), self.id, Arc::clone(data));
        match self.client()?.wire.send(move |table, now| table.write_data(now, &queue, id, data)).await? {
            true => Ok(()),
            false => Err(self.revoked()),
        }
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let (queue, id, sequence) = (self.queue.clone(), self.id, self.state.sequence());
        let (cell, write) = (cell.clone(), write.clone());
        let lease = self.state.lease().clone();
        // One step on the table checks the node and writes the cell (CELL-HELD).
        let held = move |table: &mut Table, now| {
            let stands = table.on(&queue, |queue| {
                let told = queue.prune(now);
                (queue.holds(id, sequence), told)
            });
            stands.then(|| table.write_cell(now, &cell, &write, lease))
        };
        self.client()?.wire.send(held).await?.ok_or_else(|| self.revoked())
    }

    async fn confirm(&self, _replicas: u32, _within: Duration) -> Result<()> {
        no_replicas()
    }
}

#[derive(Debug)]
pub(crate) struct Client {
    wire: Wire,
    config: Config,
    lease: Mutex<LeaseWriter>,
}

impl Client {
    /// Every third of its TTL, until it is lost or the client is dropped.
    async fn keep(client: Weak<Self>, lease: LeaseWriter) {
        let (clock, period) = (lease.clock().clone(), renewal_period(lease.ttl()));
        let mut next = clock.now() + period;
        while lease.lost().is_none() {
            clock.sleep_until(next).await;
            let Some(client) = client.upgrade() else { return };
            let sent = clock.now();
            next = sent + period;
            lease.awaiting(sent, next);
            let renewed = lease.clone();
            match client.wire.send(move |table, now| table.renew(now, &renewed)).await {
                // The deadline counts from the send, never from the reply (LEASE-DEADLINE).
                Ok(()) => drop(lease.proven(sent)),
                Err(error) if error.may_pass() => next = sent + period / 4,
                Err(_) => return,
            }
            lease.tick();
        }
    }

    /// Or a new one if it is lost (LEASE-REOPEN). The old lease is ended on the table, so that no join waits
    /// for its nodes.
    async fn lease(self: &Arc<Self>) -> Result<LeaseWriter> {
        let old = self.lease.lock().clone();
        match old.lost() {
            None => return Ok(old),
            Some(LostReason::Closed) => return Err(Error::closed()),
            Some(reason) => {
                let ended = old.clone();
                self.wire.send(move |table, now| table.end(now, &ended, reason)).await?;
            }
        }
        let mut lease = self.lease.lock();
        // Another join may have opened one.
        if lease.same_as(&old) {
            *lease = LeaseWriter::new(old.clock().clone(), self.config.ttl, old.clock().now());
            tokio::spawn(Self::keep(Arc::downgrade(self), lease.clone()));
        }
        Ok(lease.clone())
    }
}

#[derive(Debug)]
pub(crate) struct TableBackend(Arc<Client>);

impl TableBackend {
    pub(crate) fn connect(wire: Wire, config: &Config) -> Result<Arc<dyn Backend>> {
        config.validate()?;
        let lease = LeaseWriter::new(wire.clock().clone(), config.ttl, wire.clock().now());
        let client = Client { wire, config: config.clone(), lease: Mutex::new(lease.clone()) };
        let client = Arc::new(client);
        tokio::spawn(Client::keep(Arc::downgrade(&client), lease));
        Ok(Arc::new(Self(client)))
    }
}

#[async_trait]
impl SequentialNodes for TableBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        let (lease, client, join) = (self.0.lease().await?, Arc::downgrade(&self.0), join.clone());
        self.0.wire.send(move |table, now| table.join(now, &join, lease, client)).await?
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        let (queue, id) = (join.queue.clone(), join.id);
        self.0.wire.send(move |table, now| table.leave(now, &queue, id, true)).await.map(drop)
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let queue = queue.clone();
        self.0.wire.send(move |table, now| table.list(now, &queue, page)).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        match queue.kind().is_observed() {
            true => Box::new(TableWatch::new(self.0.wire.clone(), queue.clone())),
            false => Box::new(Unobserved::new(queue)),
        }
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = queue.clone();
        self.0.wire.send(move |table, now| table.revoke(now, &queue, sequence)).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let queue = queue.clone();
        self.0.wire.send(move |table, _| table.limit(&queue)).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        let queue = queue.clone();
        self.0.wire.send(move |table, now| table.set_limit(now, &queue, expected, limit)).await
    }
}

#[async_trait]
impl Cells for TableBackend {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        let cell = cell.clone();
        self.0.wire.send(move |table, now| table.read_cell(now, &cell)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let (cell, write) = (cell.clone(), write.clone());
        let lease = match write.life {
            CellLife::Lease => self.0.lease().await?.lease().clone(),
            CellLife::Stays | CellLife::Idle(_) => Backend::lease(self),
        };
        self.0.wire.send(move |table, now| table.write_cell(now, &cell, &write, lease)).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(TableWatch::new(self.0.wire.clone(), cell.clone()))
    }
}

#[async_trait]
impl Backend for TableBackend {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn lease(&self) -> Lease {
        self.0.lease.lock().lease().clone()
    }

    fn incarnation(&self) -> Incarnation {
        // The table lives as long as its clients.
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
        let (of, after) = (of.clone(), after.unwrap_or_default().to_owned());
        self.0.wire.send(move |table, now| table.list_keys(now, with, &of, &after, most)).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        // A backend with a server asks the server here, only for diagnosis.
        let mut facts = ServerFacts::of(NAME);
        facts.topology = Fact::Told(Topology::InProcess);
        facts.persistence = Fact::Told(Persistence::Nothing);
        Ok(facts)
    }

    async fn close(&self, how: Close) -> Result<()> {
        let lease = self.0.lease.lock().clone();
        if how == Close::Orderly && lease.lost() != Some(LostReason::Closed) {
            let clock = lease.clock();
            let until = clock.now() + self.0.config.request_timeout;
            let told = loop {
                let ended = lease.clone();
                let end = move |table: &mut Table, now| table.end(now, &ended, LostReason::Closed);
                match self.0.wire.send(end).await {
                    Err(error) if error.may_pass() && clock.now() < until => {
                        clock.sleep_until(clock.now() + SOON).await;
                    }
                    told => break told,
                }
            };
            lease.end(LostReason::Closed);
            self.0.wire.close();
            return told;
        }
        self.0.wire.close();
        Ok(())
    }
}

/// Without a wire, each client has its own table, as with `memory://`.
#[derive(Default)]
pub(crate) struct TableConnector(Option<Wire>);

impl TableConnector {
    pub(crate) fn of(wire: &Wire) -> Self {
        Self(Some(wire.clone()))
    }
}

impl fmt::Debug for TableConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TableConnector")
    }
}

#[async_trait]
impl Connector for TableConnector {
    fn name(&self) -> &'static str {
        NAME
    }

    fn validate(&self, config: &Config) -> Result<()> {
        match config.hosts.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid("hosts", "the table is in this process")),
        }
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let own = || Wire::to(&Arc::new(Site::new(Clock::system())));
        TableBackend::connect(self.0.clone().unwrap_or_else(own), config)
    }
}

pub(crate) const NAME: &str = "table";

/// The suite tests `clean_try`, `prompt_revocation`, `minimum_outlives_close`, `exact_addresses`,
/// `confirms_on_replicas` and `idle_cells`, and trusts the others.
pub(crate) const CAPABILITIES: Capabilities = Capabilities {
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
};
