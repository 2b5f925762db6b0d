//! A backend that connects at its first use.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::address::Address;
use crate::capabilities::{Capabilities, Eviction};
use crate::config::Config;
use crate::connector::{Connector, connect_in_time};
use crate::contracts::{
    Backend, Close, Entry, Join, Joined, Lease, LeaseKeeper, Page, SequentialNodes, SingleFlight,
};
use crate::error::{Error, ErrorKind, LostReason, Result};

/// Connects in a [single flight](SingleFlight): a short try that ends before the connection stands does not undo it. It runs where the
/// coordinator was made, as its backend will: whoever comes first may come on a runtime of the moment.
#[derive(Debug)]
pub(crate) struct Lazy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connector: Arc<dyn Connector>,
    config: Config,
    runtime: Handle,
    connected: OnceLock<Arc<dyn Backend>>,
    // What `lease` answers until then, and which becomes its lease; lost when it is closed before.
    pending: LeaseKeeper,
    connecting: SingleFlight<Result<()>>,
    // Locked when it is connected, and to close: one comes first.
    first: Mutex<()>,
}

impl Lazy {
    pub(crate) fn new(connector: Arc<dyn Connector>, config: Config) -> Self {
        let pending = LeaseKeeper::pending(connector.clock(&config), config.ttl);
        let (connected, connecting, first) = (OnceLock::new(), SingleFlight::default(), Mutex::default());
        let runtime = Handle::current();
        Self(Arc::new(Shared { connector, config, runtime, connected, pending, connecting, first }))
    }

    async fn backend(&self) -> Result<&Arc<dyn Backend>> {
        let shared = &self.0;
        if shared.connected.get().is_none() {
            // Looked at in this order: once it is connected, the stand-in is lost with the lease that it became.
            if shared.pending.lost().is_some() && shared.connected.get().is_none() {
                return Err(Error::closed());
            }
            let connects = Arc::clone(shared);
            let connecting =
                shared.connecting.join(&shared.runtime, || async move { connects.connect().await });
            let Config { connect_timeout, request_timeout, .. } = shared.config;
            let within = connect_timeout.saturating_add(request_timeout);
            connecting.landed_within(within, "the connecting").await??;
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
            // Instants that were told before would be others to it.
            if let Err(error) = backend.close(Close::Orderly).await {
                tracing::debug!(%error, "connected on another clock; its lease runs out");
            }
            return Err(Error::new(
                ErrorKind::Misconfigured,
                "the store was made, on another clock, behind the lazy connect: make it before",
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
            // Never connected: nothing was ever sent.
            None => Ok(()),
        }
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.backend().await?.list(queue, page).await
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
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Lazy {
    fn name(&self) -> &'static str {
        self.0.connector.name()
    }

    fn capabilities(&self) -> Capabilities {
        match self.0.connected.get() {
            Some(backend) => backend.capabilities(),
            // Until it is connected it promises nothing.
            None => Capabilities {
                lease_per_node: false,
                clean_try: false,
                prompt_revocation: false,
                minimum_outlives_close: false,
                survives_failover: false,
                exact_addresses: false,
                eviction: Eviction::Unknown,
            },
        }
    }

    fn lease(&self) -> Lease {
        self.0.connected.get().map_or_else(|| self.0.pending.lease().clone(), |backend| backend.lease())
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
