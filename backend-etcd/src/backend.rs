//! A connected client of etcd.

use std::fmt;
use std::sync::Arc;

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
use crate::keys::{Layout, Queue};
use crate::lease::{Leases, revoke_in_time};
use crate::leftovers::Leftovers;
use crate::terms::{Entry, Guard, Order, Range, Step};
use crate::view::stored_limit;
use crate::watch::Watches;
use crate::{join, recheck, stream, view};

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
        let recheck = tokio::spawn(recheck::run(driver.clone(), Arc::clone(&watches), lease.clone()));
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
        // As a reader sees it: everything, with values.
        let (view, limit) =
            view::read(&self.client.driver, &queue, Claim::Shared, Order::Oldest, None).await?;
        let claims: Vec<_> = view.members.iter().map(|member| member.value.claim).collect();
        let marked = view.members.iter().rposition(|member| member.value.marked).map_or(0, |last| last + 1);
        let admitted = admitted_prefix(&claims, marked, limit.unwrap_or(0));
        let entries = view.members.iter().enumerate().map(|(at, member)| contracts::Entry {
            sequence: member.created,
            claim: member.value.claim,
            admitted: at < admitted,
            label: member.value.label.to_string(),
            age: member.value.age(),
        });
        Ok(entries.filter(|entry| entry.sequence > page.after).take(page.most).collect())
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = self.queue(queue)?;
        let order = Order::CreatedAt(sequence);
        let range = Range { prefix: queue.prefix.clone(), order, limit: 0, keys_only: true };
        let (found, _) = self.client.driver.range(range).await?;
        let mut was_there = false;
        // One, unless a foreign transaction made several.
        for Entry { key, .. } in found.entries.into_iter().filter(|entry| queue.counts(&entry.key)) {
            let created = Guard::Created(key.clone(), sequence);
            was_there |=
                self.client.driver.transact(vec![created], vec![Step::Delete(key)], Vec::new()).await?.held;
        }
        Ok(was_there)
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let queue = self.queue(queue)?;
        let outcome = self.client.driver.read(vec![Step::Get(queue.limit.into())]).await?;
        Ok(stored_limit(outcome.reads.first()))
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
        self.client.leases.current().lease.clone()
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
        let told = answer.wait_for(Option::is_some).await.map(|answer| answer.clone());
        // The task that tells is gone with its runtime: the lease runs out.
        told.ok()
            .flatten()
            .unwrap_or_else(|| Err(Error::new(ErrorKind::Unavailable, "the runtime ended while closing")))
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
