//! A backend that connects at its first use.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::address::{Address, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{
    Backend, Cell, CellPage, CellWrite, CellWritten, Cells, ChangeWatch, Close, Entry, Incarnation, Join,
    Joined, Lease, LeaseWriter, Page, QueuePage, SequentialNodes, TimeToIdle,
};
use crate::decide::count::request::{Decided, Request};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::facts::ServerFacts;
use crate::registry::connect_in_time;
use crate::support::{SingleFlight, opening_bound};
use crate::token::Token;

/// Connects in a [single flight](SingleFlight), so that a short operation that gives up does not
/// undo the connecting. The work runs on the runtime where the coordinator was made: the first
/// caller's runtime may be short-lived.
#[derive(Clone, Debug)]
pub(crate) struct Lazy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connector: Arc<dyn Connector>,
    config: Config,
    runtime: Handle,
    connected: OnceLock<Arc<dyn Backend>>,
    // The stand-in that `lease` answers until the client is connected, and that then follows the
    // real lease. It is lost when the client is closed first.
    pending: LeaseWriter,
    connecting: SingleFlight<Result<()>>,
    // Orders the end of connecting against a close.
    first: Mutex<()>,
}

impl Lazy {
    pub(crate) fn new(connector: Arc<dyn Connector>, config: Config) -> Self {
        let pending = LeaseWriter::pending(connector.clock(&config), config.ttl);
        let (connected, connecting, first) = (OnceLock::new(), SingleFlight::default(), Mutex::default());
        let runtime = Handle::current();
        Self(Arc::new(Shared { connector, config, runtime, connected, pending, connecting, first }))
    }

    async fn backend(&self) -> Result<&Arc<dyn Backend>> {
        let shared = &self.0;
        if shared.connected.get().is_none() {
            // The order of the two looks matters: once connected, the stand-in is lost with the
            // lease that it follows.
            if shared.pending.lost().is_some() && shared.connected.get().is_none() {
                return Err(Error::closed());
            }
            let connects = Arc::clone(shared);
            let connecting =
                shared.connecting.run(&shared.runtime, || async move { connects.connect().await });
            let Config { connect_timeout, request_timeout, .. } = shared.config;
            let within = opening_bound(connect_timeout, request_timeout);
            connecting.wait_within(within, "the connecting").await??;
        }
        Ok(shared.connected.get().expect("set before the answer"))
    }
}

impl Shared {
    async fn connect(&self) -> Result<()> {
        if self.connected.get().is_some() {
            return Ok(());
        }
        let backend = tokio::select! {
            biased;
            _ = self.pending.until_lost() => return Err(Error::closed()),
            answer = connect_in_time(&*self.connector, &self.config) => answer?,
        };
        if backend.lease().clock().is_tokio() != self.pending.clock().is_tokio() {
            // Instants handed out before would mean something else on the new clock.
            if let Err(error) = backend.close(Close::Orderly).await {
                tracing::debug!(%error, "connected on another clock; its lease runs out");
            }
            return Err(Error::new(
                ErrorKind::Misconfigured,
                "the memory store has another clock, since it was made after the lazy connect: make it before",
            ));
        }
        let closed = {
            let _first = self.first.lock();
            let closed = self.pending.lost().is_some() || self.connected.set(Arc::clone(&backend)).is_err();
            if !closed {
                self.pending.becomes(backend.lease());
            }
            closed
        };
        if closed {
            if let Err(error) = backend.close(Close::Orderly).await {
                tracing::debug!(%error, "closed while it connected; its lease runs out");
            }
            return Err(Error::closed());
        }
        Ok(())
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl SequentialNodes for Lazy {
    async fn join(&self, join: &Join) -> Result<Joined> {
        self.backend().await?.join(join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        match self.0.connected.get() {
            Some(backend) => backend.abandon(join).await,
            // Never connected: nothing was sent.
            None => Ok(()),
        }
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.backend().await?.list(queue, page).await
    }

    async fn queues(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.backend().await?.queues(of, after, most).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        Box::new(LazyWatch { lazy: self.clone(), what: What::Queue(queue.clone()), watch: None })
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.backend().await?.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.backend().await?.limit(queue).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        self.backend().await?.set_limit(queue, limit).await
    }

    async fn replace_limit(&self, queue: &Address, stored: Option<u32>, limit: u32) -> Result<bool> {
        self.backend().await?.replace_limit(queue, stored, limit).await
    }

    async fn limited(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.backend().await?.limited(of, after, most).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Cells for Lazy {
    async fn read_cell(&self, cell: &Address) -> Result<Option<Cell>> {
        self.backend().await?.read_cell(cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        self.backend().await?.write_cell(cell, write).await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &Request,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        self.backend().await?.change_count(cell, request, idle).await
    }

    async fn cells(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<CellPage> {
        self.backend().await?.cells(of, after, most).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(LazyWatch { lazy: self.clone(), what: What::Cell(cell.clone()), watch: None })
    }
}

/// A watch that connects at its first use.
#[derive(Debug)]
struct LazyWatch {
    lazy: Lazy,
    what: What,
    watch: Option<Box<dyn ChangeWatch>>,
}

/// What is watched.
#[derive(Debug)]
enum What {
    Cell(Address),
    Queue(Address),
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ChangeWatch for LazyWatch {
    async fn changed(&mut self) -> Result<()> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => {
                let backend = self.lazy.backend().await?;
                match &self.what {
                    What::Cell(cell) => backend.watch_cell(cell),
                    What::Queue(queue) => backend.watch_queue(queue),
                }
            }
        };
        self.watch.insert(watch).changed().await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Lazy {
    fn name(&self) -> &'static str {
        self.0.connector.name()
    }

    fn capabilities(&self) -> Capabilities {
        // An unconnected client promises nothing.
        self.0.connected.get().map_or(Capabilities::NOTHING, |backend| backend.capabilities())
    }

    fn lease(&self) -> Lease {
        self.0.connected.get().map_or_else(|| self.0.pending.lease().clone(), |backend| backend.lease())
    }

    fn incarnation(&self) -> Incarnation {
        self.0.connected.get().map_or(Incarnation::Unknown, |backend| backend.incarnation())
    }

    fn token(&self, sequence: u64) -> Result<Token> {
        self.0.connected.get().map_or_else(|| Token::new(0, sequence), |backend| backend.token(sequence))
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.backend().await?.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        {
            let _first = self.0.first.lock();
            if self.0.connected.get().is_none() {
                self.0.pending.end(LostReason::Closed);
            }
        }
        match self.0.connected.get() {
            Some(backend) => backend.close(how).await,
            None => Ok(()),
        }
    }
}
