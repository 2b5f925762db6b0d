//! A backend that connects at its first use.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::address::Address;
use crate::capabilities::{Capabilities, Eviction};
use crate::config::Config;
use crate::connector::{Connector, connect_in_time};
use crate::contracts::{Backend, Close, Entry, Join, Joined, Lease, Page, SequentialNodes};
use crate::error::{Error, ErrorKind, LostReason, Result};

/// Connects in a task of its own, which all operations that come meanwhile wait for: so that an operation that ends
/// before the connection stands (a short try) does not undo it, and one that nobody polls keeps nobody else from it. The
/// task runs where the coordinator was made, as its backend will: whoever comes first may come on a runtime of the moment.
#[derive(Debug)]
pub(crate) struct Lazy(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    connector: Arc<dyn Connector>,
    config: Config,
    runtime: Handle,
    connected: OnceLock<Arc<dyn Backend>>,
    // What `lease` answers until then, and which becomes its lease; lost when it is closed before.
    pending: Lease,
    // The connecting that is under way or was last. Locked to connect, and to close: one comes first.
    connecting: Mutex<Option<watch::Receiver<Option<Result<()>>>>>,
}

impl Lazy {
    pub(crate) fn new(connector: Arc<dyn Connector>, config: Config) -> Self {
        let pending = Lease::pending(connector.clock(&config), config.ttl);
        let (connected, connecting) = (OnceLock::new(), Mutex::default());
        let runtime = Handle::current();
        Self(Arc::new(Shared { connector, config, runtime, connected, pending, connecting }))
    }

    async fn backend(&self) -> Result<&Arc<dyn Backend>> {
        if let Some(mut connecting) = self.0.connecting()? {
            // Its runtime may be there and not be driven.
            let Config { connect_timeout, request_timeout, .. } = self.0.config;
            let within = connect_timeout.saturating_add(request_timeout);
            let answer = match tokio::time::timeout(within, connecting.wait_for(Option::is_some)).await {
                Ok(Ok(answer)) => answer.clone(),
                Ok(Err(_)) => None,
                Err(_) => {
                    return Err(Error::new(ErrorKind::Unavailable, "the connecting took too long"));
                }
            };
            answer.unwrap_or_else(|| {
                Err(Error::new(
                    ErrorKind::Unavailable,
                    "the connecting came to no end: its task died, or its runtime",
                ))
            })?;
        }
        Ok(self.0.connected.get().expect("set before the answer"))
    }
}

impl Shared {
    /// The connecting to wait for, begun here unless one is under way; `None` when it is connected.
    fn connecting(self: &Arc<Self>) -> Result<Option<watch::Receiver<Option<Result<()>>>>> {
        if self.connected.get().is_some() {
            return Ok(None);
        }
        let mut connecting = self.connecting.lock();
        if self.connected.get().is_some() {
            return Ok(None);
        }
        if self.pending.lost().is_some() {
            return Err(Error::closed());
        }
        if let Some(under_way) = connecting.as_ref().filter(|answer| answer.has_changed().is_ok()) {
            return Ok(Some(under_way.clone()));
        }
        let (sender, receiver) = watch::channel(None);
        let shared = Arc::clone(self);
        self.runtime.spawn(async move { sender.send_replace(Some(shared.connect().await)) });
        *connecting = Some(receiver.clone());
        Ok(Some(receiver))
    }

    async fn connect(&self) -> Result<()> {
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
            let _first = self.connecting.lock();
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
        self.0.connected.get().map_or_else(|| self.0.pending.clone(), |backend| backend.lease())
    }

    async fn close(&self, how: Close) -> Result<()> {
        {
            let _first = self.0.connecting.lock();
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
