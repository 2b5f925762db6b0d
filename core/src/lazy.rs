//! A backend that connects at its first use.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::OnceCell;

use crate::address::Address;
use crate::capabilities::{Capabilities, Eviction};
use crate::clock::Clock;
use crate::config::Config;
use crate::connector::{Connector, connect_in_time};
use crate::contracts::{Backend, Close, Entry, Join, Joined, Lease, Page, SequentialNodes};
use crate::error::{Error, Result};

#[derive(Debug)]
pub(crate) struct Lazy {
    connector: Arc<dyn Connector>,
    config: Config,
    connected: OnceCell<Arc<dyn Backend>>,
    // What `lease` answers until then.
    pending: Lease,
}

impl Lazy {
    pub(crate) fn new(connector: Arc<dyn Connector>, config: Config) -> Self {
        let pending = Lease::pending(Clock::system(), config.ttl);
        Self { connector, config, connected: OnceCell::new(), pending }
    }

    async fn backend(&self) -> Result<&Arc<dyn Backend>> {
        if self.pending.lost().is_some() {
            return Err(Error::closed());
        }
        self.connected.get_or_try_init(|| connect_in_time(&*self.connector, &self.config)).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl SequentialNodes for Lazy {
    async fn join(&self, join: &Join) -> Result<Joined> {
        self.backend().await?.join(join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        match self.connected.get() {
            Some(backend) => backend.abandon(join).await,
            // Never connected: nothing was ever sent.
            None => Ok(()),
        }
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.backend().await?.list(queue, page).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Lazy {
    fn name(&self) -> &'static str {
        self.connector.name()
    }

    fn capabilities(&self) -> Capabilities {
        match self.connected.get() {
            Some(backend) => backend.capabilities(),
            // Until it is connected it promises nothing.
            None => Capabilities {
                lease_per_node: false,
                clean_try: false,
                prompt_revocation: false,
                survives_failover: false,
                exact_addresses: false,
                eviction: Eviction::Unknown,
            },
        }
    }

    fn lease(&self) -> Lease {
        self.connected.get().map_or_else(|| self.pending.clone(), |backend| backend.lease())
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.pending.end(crate::LostReason::Closed);
        match self.connected.get() {
            Some(backend) => backend.close(how).await,
            None => Ok(()),
        }
    }
}
