//! A connected client of etcd.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::{self, Backend, Close, Join, Joined, Lease, Names, Page, SequentialNodes};
use latchwork_core::decide::queue::TOMBSTONE;
use latchwork_core::decide::{Claim, admitted_prefix};
use latchwork_core::{Address, Capabilities, Error, ErrorKind, Eviction, LostReason, Result};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::driver::Driver;
use crate::error::Failure;
use crate::keys::{Layout, NodeValue, Queue};
use crate::lease::{Leases, revoke_in_time};
use crate::leftovers::Leftovers;
use crate::terms::{Entry, Guard, Order, Range, Step};
use crate::view::{Member, stored_limit};
use crate::watch::Watches;
use crate::{join, recheck, stream, view};

/// So many values are read at once for a listing: each is as large as a request may be, at most.
const VALUES: usize = 32;

/// What a close whose time is over has for saying how far it came.
const GRACE: Duration = Duration::from_millis(100);

/// A client of etcd: one channel, one lease for all its nodes, one stream of watches.
pub struct EtcdBackend {
    client: Arc<Client>,
    // The answer of the close that is under way, for all who ask.
    closing: Mutex<Option<watch::Receiver<Option<Result<()>>>>>,
}

/// What the backend and its nodes share.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) driver: Driver,
    pub(crate) layout: Layout,
    pub(crate) leases: Arc<Leases>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) names: Names,
    pub(crate) leftovers: Arc<Leftovers>,
    tasks: [AbortHandle; 2],
}

impl EtcdBackend {
    pub(crate) fn new(driver: Driver, layout: Layout, leases: Leases) -> Self {
        let (watches, commands) = Watches::new();
        let lease = leases.current().lease.clone();
        let stream = tokio::spawn(stream::run(driver.clone(), Arc::clone(&watches), commands));
        let recheck = tokio::spawn(recheck::run(driver.clone(), Arc::clone(&watches), lease.lease().clone()));
        let tasks = [stream.abort_handle(), recheck.abort_handle()];
        let leftovers = Leftovers::new(
            driver.clone(),
            layout.clone(),
            lease.clock().clone(),
            leases.runtime.clone(),
            TOMBSTONE,
        );
        let (leases, names) = (Arc::new(leases), Names::default());
        let client = Client { driver, layout, leases, watches, names, leftovers, tasks };
        Self { client: Arc::new(client), closing: Mutex::default() }
    }

    /// The values of these entries of a queue. Those of other programs are not read: they may be large, and say nothing to us.
    async fn values(&self, queue: &Queue, of: impl Iterator<Item = &Member>) -> Result<Vec<NodeValue>> {
        let keys: Vec<_> = of.map(|member| member.key.clone()).collect();
        let ours: Vec<_> = keys.iter().filter(|key| queue.is_ours(key)).cloned().map(Step::Get).collect();
        let mut reads = match ours.is_empty() {
            true => Vec::new(),
            false => self.client.driver.read(ours).await?.reads,
        }
        .into_iter();
        Ok(keys
            .iter()
            .map(|key| {
                let read = if queue.is_ours(key) { reads.next() } else { None };
                // Gone since the listing, or another program's.
                let value = read.and_then(|found| found.entries.into_iter().next()).map(|entry| entry.value);
                NodeValue::read(key, &value.unwrap_or_default())
            })
            .collect())
    }

    /// A queue's place, for a client that is open.
    fn queue(&self, address: &Address) -> Result<Queue> {
        match self.client.leases.is_closed() {
            true => Err(Error::closed()),
            false => self.client.layout.queue(address),
        }
    }
}

impl Client {
    fn stop(&self) {
        self.leases.stop();
        self.leftovers.stop();
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.stop();
    }
}

#[async_trait]
impl SequentialNodes for EtcdBackend {
    async fn join(&self, join: &Join) -> Result<Joined> {
        join::join(&self.client, join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        join::abandon(&self.client, join).await
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<contracts::Entry>> {
        let queue = self.queue(queue)?;
        // As a reader sees it: everything.
        let (view, limit) = view::read(&self.client.driver, &queue, Claim::Shared, Order::Oldest).await?;
        let claims: Vec<_> = view.members.iter().map(|member| member.claim).collect();
        let marked = view.members.iter().rposition(|member| member.marked).map_or(0, |last| last + 1);
        let admitted = admitted_prefix(&claims, marked, limit.permits().unwrap_or(0));
        let shown = view.members.iter().enumerate().filter(|(_, member)| member.created > page.after);
        let shown: Vec<_> = shown.take(page.most).collect();
        let mut entries = Vec::with_capacity(shown.len());
        for part in shown.chunks(VALUES) {
            let values = self.values(&queue, part.iter().map(|(_, member)| *member)).await?;
            entries.extend(part.iter().zip(values).map(|((at, member), value)| contracts::Entry {
                sequence: member.created,
                claim: member.claim,
                admitted: *at < admitted,
                label: value.label.to_string(),
                age: value.age(),
            }));
        }
        Ok(entries)
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = self.queue(queue)?;
        let order = Order::CreatedAt(sequence);
        let range = Range { prefix: queue.prefix.clone(), order, limit: 0, keys_only: true };
        let (found, _) = self.client.driver.range(range).await?;
        let mut was_there = false;
        // One, unless a foreign transaction made several.
        for Entry { key, .. } in found.entries.into_iter().filter(|entry| queue.claim(entry).is_some()) {
            let created = Guard::Created(key.clone(), sequence);
            was_there |=
                self.client.driver.transact(vec![created], vec![Step::Delete(key)], Vec::new()).await?.held;
        }
        Ok(was_there)
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let queue = self.queue(queue)?;
        let outcome = self.client.driver.read(vec![Step::Get(queue.limit.into())]).await?;
        stored_limit(outcome.reads.first()).known()
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        let queue = self.queue(queue)?;
        // Without a lease: a stored limit stays.
        let put = Step::Put { key: queue.limit, value: limit.to_string().into_bytes(), lease: 0 };
        match self.client.driver.transact(Vec::new(), vec![put], Vec::new()).await {
            Err(Failure::Full(error)) => {
                Err(Error::new(ErrorKind::Unknown, "a full server may have stored it").because(error))
            }
            answer => Ok(answer.map(drop)?),
        }
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
        self.client.leases.current().lease.lease().clone()
    }

    async fn close(&self, how: Close) -> Result<()> {
        let mut answer = {
            let mut closing = self.closing.lock();
            closing
                .get_or_insert_with(|| {
                    let (sender, receiver) = watch::channel(None);
                    self.client.stop();
                    // Behind that no other one comes.
                    let session = self.client.leases.current();
                    match how {
                        // Left to run out: a client that died does not know that it did.
                        Close::Abrupt => {
                            sender.send_replace(Some(Ok(())));
                        }
                        Close::Orderly => {
                            session.lease.end(LostReason::Closed);
                            let driver = self.client.driver.clone();
                            self.client.leases.runtime.spawn(async move {
                                sender.send_replace(Some(revoke_in_time(&driver, session.id).await));
                            });
                        }
                    }
                    receiver
                })
                .clone()
        };
        let told = async { answer.wait_for(Option::is_some).await.ok().and_then(|answer| answer.clone()) };
        // The task that tells may be gone with its runtime, or nobody may drive that: the lease runs out.
        let within = self.client.driver.request_timeout() + GRACE;
        tokio::time::timeout(within, told).await.ok().flatten().unwrap_or_else(|| {
            let why = "the runtime that closes ended, or is not driven; the lease runs out by itself";
            Err(Error::new(ErrorKind::Unavailable, why))
        })
    }
}

impl fmt::Debug for EtcdBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdBackend")
            .field("lease", &self.lease())
            .field("watches", &self.client.watches)
            .finish()
    }
}
