//! A client that dies, or loses its lease, at one of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::{Bed, Stored};
use crate::address::{Address, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::clock::Clock;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Lease, ListedKey, QueueEntry, SequentialNodes, TimeToIdle, VersionedValue,
};
use crate::decide::count::request::{CountRequest, Decided};
use crate::error::{Error, LostReason, Result};
use crate::facts::ServerFacts;
use crate::listing::Page;
use crate::memory::Link;
use crate::moving::operator::Move;

/// The number of requests that a client has left, and the end of the last one.
#[derive(Debug)]
pub(super) struct Life {
    left: AtomicI64,
    last: Last,
    pub(super) asleep: Notify,
    pub(super) awake: Notify,
    /// The client's watches end, as with a lease.
    pub(super) watches_end: Notify,
}

/// The end of the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Last {
    /// The client dies before the request is carried out.
    Lost,
    /// The request is carried out, but the client gets no answer.
    Unheard,
    /// The client sleeps before the request, and then continues.
    Asleep,
    /// The client's lease ends before the request, and the client continues.
    Leaseless,
}

impl Life {
    pub(super) fn new(last: Last) -> Arc<Self> {
        let left = AtomicI64::new(i64::MAX);
        let [asleep, awake, watches_end] = [const { Notify::const_new() }; 3];
        Arc::new(Self { left, last, asleep, awake, watches_end })
    }

    async fn spend<T>(&self, link: &Link, request: impl Future<Output = Result<T>>) -> Result<T> {
        match (self.left.fetch_sub(1, Ordering::AcqRel), self.last) {
            (0, Last::Asleep) => {
                self.asleep.notify_one();
                self.awake.notified().await;
                request.await
            }
            (0, Last::Leaseless) => {
                link.lose_lease();
                request.await
            }
            (0, Last::Unheard) => {
                request.await?;
                Err(Error::closed())
            }
            (left, Last::Lost | Last::Unheard) if left <= 0 => Err(Error::closed()),
            _ => request.await,
        }
    }

    /// The number of requests of a client without a last one.
    pub(super) fn spent(&self) -> i64 {
        i64::MAX - self.left.load(Ordering::Acquire)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.left.load(Ordering::Acquire) < 0
    }
}

#[derive(Debug)]
struct Mortal {
    inner: Arc<dyn Backend>,
    link: Link,
    life: Arc<Life>,
}

impl Mortal {
    async fn spend<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        self.life.spend(&self.link, request).await
    }

    fn watch(&self, inner: Box<dyn ChangeWatch>) -> Box<dyn ChangeWatch> {
        Box::new(MortalWatch { inner, life: Arc::clone(&self.life) })
    }
}

#[derive(Debug)]
struct MortalWatch {
    inner: Box<dyn ChangeWatch>,
    life: Arc<Life>,
}

#[async_trait]
impl ChangeWatch for MortalWatch {
    async fn changed(&mut self) -> Result<()> {
        tokio::select! {
            changed = self.inner.changed() => changed,
            () = self.life.watches_end.notified() => Err(Error::lost(LostReason::Expired)),
        }
    }
}

#[derive(Debug)]
struct Mortals(Stored, Arc<Life>);

#[async_trait]
impl Connector for Mortals {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn validate(&self, config: &Config) -> Result<()> {
        self.0.validate(config)
    }

    fn clock(&self, config: &Config) -> Clock {
        self.0.clock(config)
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        let (inner, link) = self.0.store(config).client(config)?;
        Ok(Arc::new(Mortal { inner, link, life: Arc::clone(&self.1) }))
    }
}

#[async_trait]
impl SequentialNodes for Mortal {
    async fn join(&self, join: &Join) -> Result<Joined> {
        self.spend(self.inner.join(join)).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        self.inner.abandon(join).await
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        self.spend(self.inner.list(queue, page)).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.watch(self.inner.watch_queue(queue))
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.inner.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.spend(self.inner.limit(queue)).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        match expected {
            ExpectedLimit::Any => self.inner.set_limit(queue, expected, limit).await,
            _ => self.spend(self.inner.set_limit(queue, expected, limit)).await,
        }
    }
}

#[async_trait]
impl Cells for Mortal {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        self.spend(self.inner.read_cell(cell)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.spend(self.inner.write_cell(cell, write)).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        self.inner.change_count(cell, request, idle).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.watch(self.inner.watch_cell(cell))
    }
}

#[async_trait]
impl Backend for Mortal {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn lease(&self) -> Lease {
        self.inner.lease()
    }

    fn incarnation(&self) -> Incarnation {
        self.inner.incarnation()
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        self.spend(self.inner.list_keys(with, of, after, most)).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.inner.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.inner.close(how).await
    }
}

impl Bed {
    /// An operator with a life of this number of requests.
    pub(super) async fn mortal(&self, life: &Arc<Life>, requests: i64) -> Move {
        let mortals = Mortals(Stored(Arc::clone(&self.stores)), Arc::clone(life));
        let mortal = Move::connect(&[Arc::new(mortals) as Arc<dyn Connector>], &self.config).await;
        let mortal = mortal.expect("connected");
        life.left.store(requests, Ordering::Release);
        mortal
    }
}
