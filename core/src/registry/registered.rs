//! The only way from the recipes to a server: a client that registers before its first write.

use std::sync::atomic::AtomicU16;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::connecting::connect_in_time;
use super::place::is_writers;
use super::presence::Entered;
use crate::address::{Address, Kind, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::client::Client;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{
    Backend, CellWrite, CellWritten, Cells, ChangeWatch, Close, EntryPage, ExpectedLimit, Incarnation, Join,
    Joined, KeysWith, Lease, LeaseWriter, ListedKey, QueueEntry, SequentialNodes, TimeToIdle, VersionedValue,
};
use crate::decide::count::request::{CountRequest, Decided};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::facts::ServerFacts;
use crate::listing::Page;
use crate::registration::Registrations;
use crate::support::{SingleFlight, opening_bound};
use crate::token::Tokens;

/// A client of one coordinator, for the recipes. It connects and registers (CLIENT-REGISTER-FIRST) before its
/// first request, and tries again until that succeeds. Changes wait for the registration
/// (CLIENT-ACTS-REGISTERED).
#[derive(Clone, Debug)]
pub(crate) struct Registered(Arc<RegisteredParts>);

#[derive(Debug)]
struct RegisteredParts {
    connector: Arc<dyn Connector>,
    config: Config,
    // The coordinator's runtime: the first caller's runtime may end early.
    runtime: Handle,
    // The epoch of the tokens, as read at registration.
    epoch: Arc<AtomicU16>,
    entered: OnceLock<Entered>,
    // The lease before the connect. It then follows the real one. A close before the connect ends it.
    pending: LeaseWriter,
    // Shared, so a caller that gives up does not stop the connect.
    connecting: SingleFlight<Result<()>>,
    // Orders the end of the connect and a close.
    first: Mutex<()>,
}

impl Registered {
    /// A client that connects at its first use. It belongs to the current runtime.
    pub(crate) fn lazy(connector: Arc<dyn Connector>, config: Config) -> Self {
        Self(Arc::new(RegisteredParts {
            pending: LeaseWriter::pending(connector.clock(&config), config.ttl),
            connector,
            config,
            runtime: Handle::current(),
            epoch: Arc::default(),
            entered: OnceLock::new(),
            connecting: SingleFlight::default(),
            first: Mutex::default(),
        }))
    }

    /// A connected client.
    ///
    /// # Errors
    /// As [`connect`](crate::connect).
    pub(crate) async fn connected(connector: Arc<dyn Connector>, config: Config) -> Result<Self> {
        let client = Self::lazy(connector, config);
        let RegisteredParts { connector, config, epoch, entered, .. } = &*client.0;
        // No handle has the placeholder lease, so its clock does not matter.
        let connected = connect_in_time(&**connector, config, epoch).await?;
        entered.set(connected).expect("only this call connects");
        Ok(client)
    }

    pub(crate) fn client(self) -> Client {
        let parts = Arc::clone(&self.0);
        // Weak: it does not keep a dropped client's backend alive.
        let registered = Arc::downgrade(&parts);
        let find = move || registered.upgrade()?.entered.get()?.registration();
        Client::new(Arc::new(self), Tokens::OfEpoch(Arc::clone(&parts.epoch)), &parts.config)
            .registered(Registrations::by(find))
    }

    async fn entered(&self) -> Result<&Entered> {
        let shared = &self.0;
        if shared.entered.get().is_none() {
            // The order matters: once connected, the placeholder is lost with the real lease.
            if shared.pending.lost().is_some() && shared.entered.get().is_none() {
                return Err(Error::closed());
            }
            let connects = Arc::clone(shared);
            let connecting =
                shared.connecting.run(&shared.runtime, || async move { connects.connect().await });
            let Config { connect_timeout, request_timeout, .. } = shared.config;
            let within = opening_bound(connect_timeout, request_timeout);
            connecting.wait_within(within, "the connecting").await??;
        }
        Ok(shared.entered.get().expect("set before the answer"))
    }

    /// For requests that change nothing.
    async fn reads(&self) -> Result<&dyn Backend> {
        Ok(&*self.entered().await?.backend)
    }

    fn backend(&self) -> Option<&Arc<dyn Backend>> {
        self.0.entered.get().map(|entered| &entered.backend)
    }

    fn watch(&self, address: &Address, watches: WatchKind) -> Box<dyn ChangeWatch> {
        match self.backend() {
            Some(backend) => watches(&**backend, address),
            None => {
                Box::new(LazyWatch { client: self.clone(), address: address.clone(), watches, watch: None })
            }
        }
    }
}

impl RegisteredParts {
    async fn connect(&self) -> Result<()> {
        if self.entered.get().is_some() {
            return Ok(());
        }
        let entered = tokio::select! {
            biased;
            _ = self.pending.until_lost() => return Err(Error::closed()),
            answer = connect_in_time(&*self.connector, &self.config, &self.epoch) => answer?,
        };
        let backend = Arc::clone(&entered.backend);
        let refused = if backend.lease().clock().is_tokio() != self.pending.clock().is_tokio() {
            // Earlier instants would mean another time on the new clock.
            Some(Error::new(
                ErrorKind::Misconfigured,
                "the memory store has another clock than the lazy connect: create the store before it",
            ))
        } else {
            let _first = self.first.lock();
            match self.pending.lost().is_some() || self.entered.set(entered).is_err() {
                true => Some(Error::closed()),
                false => {
                    self.pending.becomes(backend.lease());
                    None
                }
            }
        };
        let Some(refused) = refused else { return Ok(()) };
        if let Err(error) = backend.close(Close::Orderly).await {
            tracing::debug!(%error, "could not close an unused client in order: its lease expires");
        }
        Err(refused)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl SequentialNodes for Registered {
    async fn join(&self, join: &Join) -> Result<Joined> {
        let entered = self.entered().await?;
        let acting = match is_writers(&join.queue) {
            true => entered.acts().await?,
            false => entered.works().await?,
        };
        acting.join(join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        match self.backend() {
            Some(backend) => backend.abandon(join).await,
            // The client never connected, so no request was sent.
            None => Ok(()),
        }
    }

    async fn list(&self, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        self.reads().await?.list(queue, page).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.watch(queue, |backend, queue| backend.watch_queue(queue))
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.entered().await?.acts().await?.backend.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.reads().await?.limit(queue).await
    }

    async fn set_limit(&self, queue: &Address, expected: ExpectedLimit, limit: u32) -> Result<bool> {
        let entered = self.entered().await?;
        match expected {
            ExpectedLimit::Any => entered.changes(entered.backend.set_limit(queue, expected, limit)).await,
            // Only an operator sets limits in this way.
            _ => entered.acts().await?.backend.set_limit(queue, expected, limit).await,
        }
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Cells for Registered {
    async fn read_cell(&self, cell: &Address) -> Result<Option<VersionedValue>> {
        self.reads().await?.read_cell(cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let entered = self.entered().await?;
        match cell.kind() {
            // The stamp and the stage: only operators write them here.
            Kind::Layout => entered.acts().await?.backend.write_cell(cell, write).await,
            _ => entered.changes(entered.backend.write_cell(cell, write)).await,
        }
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &CountRequest,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        let entered = self.entered().await?;
        entered.changes(entered.backend.change_count(cell, request, idle)).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.watch(cell, |backend, cell| backend.watch_cell(cell))
    }
}

/// The way in which a backend watches an address.
type WatchKind = fn(&dyn Backend, &Address) -> Box<dyn ChangeWatch>;

#[derive(Debug)]
struct LazyWatch {
    client: Registered,
    address: Address,
    watches: WatchKind,
    watch: Option<Box<dyn ChangeWatch>>,
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ChangeWatch for LazyWatch {
    async fn changed(&mut self) -> Result<()> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => (self.watches)(self.client.reads().await?, &self.address),
        };
        self.watch.insert(watch).changed().await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Registered {
    fn name(&self) -> &'static str {
        self.0.connector.name()
    }

    fn capabilities(&self) -> Capabilities {
        // An unconnected client promises nothing.
        self.backend().map_or(Capabilities::NOTHING, |backend| backend.capabilities())
    }

    fn lease(&self) -> Lease {
        self.backend().map_or_else(|| self.0.pending.lease().clone(), |backend| backend.lease())
    }

    fn incarnation(&self) -> Incarnation {
        self.backend().map_or(Incarnation::Unknown, |backend| backend.incarnation())
    }

    async fn list_keys(
        &self,
        with: KeysWith,
        of: &QueuePrefix,
        after: Option<&str>,
        most: usize,
    ) -> Result<Page<ListedKey>> {
        self.reads().await?.list_keys(with, of, after, most).await
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.reads().await?.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        {
            let _first = self.0.first.lock();
            if self.backend().is_none() {
                self.0.pending.end(LostReason::Closed);
            }
        }
        match self.backend() {
            Some(backend) => backend.close(how).await,
            None => Ok(()),
        }
    }
}
