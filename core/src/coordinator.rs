//! A connection to a coordinator, and the recipes' handles.

use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;

use crate::address::{Address, Kind, Name, Namespace};
use crate::attempt::{self, Admitted, Request};
use crate::capabilities::Capabilities;
use crate::clock::Clock;
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{AskedLimit, Backend, Close, Entry, Lease, LeaseState, Page};
use crate::decide::given_back_at;
use crate::departures::Departures;
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::label::default_label;
use crate::live::Live;
use crate::recipes::{Mutex, ReentrantMutex, RwLock, Semaphore};
use crate::reentrancy::Owners;

/// A client of one coordinator: one set of connections, one lease, one inbox. Cheap to clone; recipes are
/// cheap handles made from it without I/O.
///
/// Two Coordinators on one URL in one process are two clients. When the last clone, recipe and guard is dropped,
/// everything is given back in the background. What is dropped as the runtime ends may not reach the server, and its lease takes
/// it then. So end `main` by [`close`](Coordinator::close), or run it in [`close_after`](Coordinator::close_after), which closes
/// behind an early `?` and a panic too.
#[derive(Clone)]
pub struct Coordinator {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Arc<dyn Backend>,
    departures: Departures,
    namespace: Namespace,
    label: Arc<str>,
    request_timeout: Duration,
    owners: Owners,
    live: Live,
    // Who can tell without I/O what cannot be there.
    connector: Option<(Arc<dyn Connector>, Config)>,
}

impl Coordinator {
    /// A coordinator over a connected backend, on the terms of `config`. For tests and backends; users call `connect`.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(backend: Arc<dyn Backend>, config: &Config) -> Self {
        Self::with(backend, config, None)
    }

    /// The same; a connector checks the places of its queues.
    pub(crate) fn with(
        backend: Arc<dyn Backend>,
        config: &Config,
        connector: Option<Arc<dyn Connector>>,
    ) -> Self {
        let departures = Departures::start(Arc::clone(&backend), config.request_timeout);
        let label = config.label.as_deref().map_or_else(default_label, Arc::from);
        let inner = Inner {
            backend,
            departures,
            namespace: Namespace::new(&config.namespace),
            label,
            request_timeout: config.request_timeout,
            owners: Owners::default(),
            live: Live::default(),
            connector: connector.map(|connector| (connector, config.clone())),
        };
        Self { inner: Arc::new(inner) }
    }

    /// A mutex: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn mutex(&self, key: impl Into<Name>) -> Result<Mutex> {
        Ok(Mutex::new(self.clone(), self.address(Kind::Mutex, key)?))
    }

    /// A mutex that its owner may take again: validates the key, no I/O. It shares the key with
    /// [`mutex`](Coordinator::mutex): both exclude each other.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn reentrant_mutex(&self, key: impl Into<Name>) -> Result<ReentrantMutex> {
        Ok(ReentrantMutex::new(self.clone(), self.address(Kind::Mutex, key)?))
    }

    /// A read/write lock: validates the key, no I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn rwlock(&self, key: impl Into<Name>) -> Result<RwLock> {
        Ok(RwLock::new(self.clone(), self.address(Kind::RwLock, key)?))
    }

    /// A semaphore of exactly so many permits: validates key and limit, no I/O. The first acquisition stores the limit. While another
    /// limit is stored, acquisitions answer `Conflict`, also after a restart: for a limit that is to be changed while a fleet runs take
    /// [`semaphore_or_stored`](Coordinator::semaphore_or_stored).
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` or `limit`.
    pub fn semaphore(&self, key: impl Into<Name>, limit: u32) -> Result<Semaphore> {
        Semaphore::new(self.clone(), self.address(Kind::Semaphore, key)?, AskedLimit::Exactly(limit))
    }

    /// A semaphore of the stored limit, and of this one where none is stored: validates key and limit, no I/O. An acquisition that finds
    /// none stores this one in the same step. A limit that [`set_limit`](Semaphore::set_limit) stores outlives the
    /// configuration of every client.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key` or `limit`.
    pub fn semaphore_or_stored(&self, key: impl Into<Name>, limit: u32) -> Result<Semaphore> {
        Semaphore::new(self.clone(), self.address(Kind::Semaphore, key)?, AskedLimit::UnlessStored(limit))
    }

    /// A semaphore that follows the limit that others have stored: validates the key, no I/O. Its acquisitions answer
    /// `Conflict` while none is stored.
    ///
    /// # Errors
    /// `InvalidArgument` naming `key`.
    pub fn semaphore_as_stored(&self, key: impl Into<Name>) -> Result<Semaphore> {
        Semaphore::new(self.clone(), self.address(Kind::Semaphore, key)?, AskedLimit::Stored)
    }

    pub(crate) fn address(&self, kind: Kind, key: impl Into<Name>) -> Result<Address> {
        let address = Address::within(&self.inner.namespace, kind, key.into())?;
        if let (None, Some((connector, config))) = (address.namespace(), &self.inner.connector) {
            connector.check(config, &address).map_err(|error| error.on(address.name()))?;
        }
        Ok(address)
    }

    /// The backend: for code that goes below the recipes.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.inner.backend
    }

    /// What the backend promises beyond the contract. One that [connects lazily](crate::connect_lazy) promises nothing until it is
    /// connected.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.backend.capabilities()
    }

    /// The lease as it is now; after a loss the next acquisition opens a new one.
    pub fn lease(&self) -> Lease {
        self.inner.backend.lease()
    }

    /// The label that its nodes carry on the server.
    pub fn label(&self) -> &str {
        &self.inner.label
    }

    /// Gives everything back: departures that are under way, then every node and the lease. Holds are lost as `Closed`;
    /// later calls answer `Closed`. In this order, it waits for
    ///
    /// 1. the least time of every hold under [`hold_at_least`](crate::recipes::Acquire::hold_at_least) that there is at the call (one
    ///    that begins meanwhile is cut short);
    /// 2. one [margin](Lease::margin), if a guard is alive, or was dropped just after its fixed end: guards hear `Closed` first, so that
    ///    what runs under them is over when the next holder comes in. Release what you hold before, and this costs nothing;
    /// 3. the server, for at most twice the request timeout, within which one that cannot be reached is asked again.
    ///
    /// # Errors
    /// `Unavailable` when the server could not be told, also since nobody drives the runtime that it was connected on: its lease then
    /// takes everything back within TTL and a bound. `RuntimeGone` where that runtime has ended, at once.
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn close(&self) -> Result<()> {
        let departures = &self.inner.departures;
        tokio::select! {
            () = departures.kept_out() => {}
            () = departures.home().gone() => {}
        }
        self.close_now().await
    }

    /// As [`close`](Coordinator::close), without waiting for holds under `hold_at_least`: whether they outlive it is a
    /// capability ([`minimum_outlives_close`](Capabilities::minimum_outlives_close)).
    ///
    /// # Errors
    /// As [`close`](Coordinator::close).
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn close_now(&self) -> Result<()> {
        let clock = self.clock();
        if let Some(told) = self.inner.live.close(clock.now()) {
            clock.sleep_until(given_back_at(told, self.lease().ttl())).await;
        }
        let request = self.inner.request_timeout;
        let closing = async {
            if tokio::time::timeout(request, self.inner.departures.all_settled()).await.is_err() {
                tracing::debug!(
                    "not everything was given back one by one: the end of the client does the rest"
                );
            }
            self.inner.departures.home().last(self.inner.backend.close(Close::Orderly)).await
        };
        let closed = tokio::time::timeout(request.saturating_mul(2), closing).await.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Unavailable,
                "the end of the client was not confirmed in time; its lease runs out",
            ))
        });
        closed.map_err(|error| error.in_operation("close"))
    }

    /// Runs `work` with this coordinator, and closes it on each way out: when the work is done, when it fails, and when it panics. A
    /// program that ends early leaves nothing that the next one must wait for.
    ///
    /// # Errors
    /// The work's; else the close's, as [`close`](Coordinator::close).
    ///
    /// # Panics
    /// As the work, once everything is given back.
    ///
    /// # Cancel safety
    /// Dropped, it gives everything back in the background, as far as the runtime lives on.
    pub async fn close_after<T, E>(
        self,
        work: impl AsyncFnOnce(Coordinator) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E>
    where
        E: From<Error>,
    {
        let worked = AssertUnwindSafe(work(self.clone())).catch_unwind().await;
        let closed = self.close().await;
        match worked {
            Ok(Ok(done)) => closed.map(|()| done).map_err(E::from),
            failed => {
                if let Err(error) = closed {
                    tracing::warn!(%error, "not everything was given back behind work that failed");
                }
                failed.unwrap_or_else(|panic| resume_unwind(panic))
            }
        }
    }

    /// Dies: nothing more is sent, and what it holds is left to its lease, as though the process had been killed. For tests.
    pub async fn crash(&self) {
        // Abrupt closing sends nothing, so there is nothing that could fail.
        let _ = self.inner.backend.close(Close::Abrupt).await;
    }

    pub(crate) fn default_label(&self) -> &Arc<str> {
        &self.inner.label
    }

    pub(crate) fn departures(&self) -> &Departures {
        &self.inner.departures
    }

    pub(crate) fn live(&self) -> &Live {
        &self.inner.live
    }

    pub(crate) fn owners(&self) -> &Owners {
        &self.inner.owners
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.inner.request_timeout
    }

    pub(crate) fn clock(&self) -> Clock {
        self.inner.backend.lease().clock().clone()
    }

    /// An operation, as long as the runtime lives that this was connected on.
    pub(crate) async fn serve<T>(&self, operation: impl Future<Output = Result<T>>) -> Result<T> {
        self.inner.departures.home().serve(operation).await
    }

    pub(crate) async fn acquire(&self, request: &Request) -> Result<Option<Admitted>> {
        let acquired = self.serve(async {
            if self.inner.live.is_closing() || self.lease().state() == LeaseState::Lost(LostReason::Closed) {
                return Err(Error::closed());
            }
            attempt::acquire(&self.inner.backend, &self.inner.departures, request).await
        });
        acquired.await.map_err(|error| error.on(request.queue.name()))
    }

    pub(crate) async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        let listed = self.serve(self.inner.backend.list(queue, page)).await;
        listed.map_err(|error| error.in_operation("list").on(queue.name()))
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("backend", &self.inner.backend.name())
            .field("namespace", &self.inner.namespace.text)
            .field("label", &self.inner.label)
            .finish_non_exhaustive()
    }
}
