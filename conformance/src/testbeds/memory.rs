use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::Backend;
use latchwork_core::memory::{self, Memory};
use latchwork_core::{
    Address, Capabilities, Clock, Config, Connector, Error, ErrorKind, Eviction, Result, connect,
};

use crate::testbed::{Armed, Client, Fault, Fixture, Link, Testbed, stamps};
use latchwork_servers::proxy::EventLost;

pub(super) const CAPABILITIES: Capabilities = Capabilities {
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

/// Wraps a backend, to break it.
pub type Wrap = Arc<dyn Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync>;

/// The memory backend, with a store for each case.
pub struct MemoryTestbed {
    name: &'static str,
    wrap: Wrap,
}

impl MemoryTestbed {
    /// Creates the testbed.
    pub fn new() -> Self {
        Self { name: "memory", wrap: Arc::new(|backend| backend) }
    }

    /// Creates a testbed with a defect, as a control.
    pub fn broken(
        name: &'static str,
        wrap: impl Fn(Arc<dyn Backend>) -> Arc<dyn Backend> + Send + Sync + 'static,
    ) -> Self {
        Self { name, wrap: Arc::new(wrap) }
    }
}

impl fmt::Debug for MemoryTestbed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTestbed").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Default for MemoryTestbed {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Testbed for MemoryTestbed {
    fn name(&self) -> &str {
        self.name
    }

    fn is_paused(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    async fn fixture(&self) -> Result<Box<dyn Fixture>> {
        Ok(Box::new(MemoryFixture {
            store: Memory::new(Clock::tokio()),
            wrap: Arc::clone(&self.wrap),
            links: Mutex::default(),
            labelled: Mutex::default(),
        }))
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![memory::connector()]
    }
}

struct MemoryFixture {
    store: Memory,
    wrap: Wrap,
    // They count the requests.
    links: Mutex<Vec<memory::Link>>,
    labelled: Mutex<HashMap<String, memory::Link>>,
}

#[async_trait]
impl Fixture for MemoryFixture {
    fn can(&self, fault: Fault) -> bool {
        !matches!(fault, Fault::Plant | Fault::Processes | Fault::Narrow | Fault::Compact)
    }

    fn config(&self) -> Config {
        Config::new("memory")
    }

    async fn client(&self, config: &Config) -> Result<Client> {
        let (backend, link) = self.store.client(config)?;
        self.links.lock().unwrap_or_else(PoisonError::into_inner).push(link.clone());
        let made = MadeClient { backend: (self.wrap)(backend), clock: self.store.clock().clone() };
        let coordinator = connect(&[Arc::new(made)], config).await?;
        let label = coordinator.label().to_owned();
        self.labelled.lock().unwrap_or_else(PoisonError::into_inner).insert(label, link.clone());
        Ok(Client { coordinator, link: Arc::new(MemoryLink(link)) })
    }

    async fn contents(&self) -> Result<Vec<String>> {
        let (mut contents, stamps) = (self.store.contents(), stamps(&self.config().namespace)?);
        contents.retain(|line| !stamps.iter().any(|stamp| *line == format!("{stamp:?}")));
        Ok(contents)
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        match self.store.remove(queue, sequence) {
            true => Ok(()),
            false => Err(Error::invalid("sequence", "no such node")),
        }
    }

    async fn plant(&self, _queue: &Address) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "plant" }, "a store of memory holds only nodes"))
    }

    async fn requests(&self) -> Result<u64> {
        Ok(self.links.lock().unwrap_or_else(PoisonError::into_inner).iter().map(memory::Link::requests).sum())
    }

    async fn end_lease(&self, label: &str, _granted: Duration) -> Result<Vec<Duration>> {
        let link = self.labelled.lock().unwrap_or_else(PoisonError::into_inner).get(label).cloned();
        let link = link.ok_or_else(|| Error::invalid("label", "no client has it"))?;
        let left = link.lease_left();
        tokio::time::sleep(left.iter().max().copied().unwrap_or_default()).await;
        Ok(left)
    }

    fn expiry_bound(&self) -> Duration {
        // Each access computes the expiry, without a delay.
        Duration::ZERO
    }

    fn exact_name(&self) -> String {
        "/exact/name".to_owned()
    }

    fn process_config(&self) -> Option<Config> {
        None
    }
}

#[derive(Debug)]
struct MadeClient {
    backend: Arc<dyn Backend>,
    clock: Clock,
}

#[async_trait]
impl Connector for MadeClient {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    fn clock(&self, _config: &Config) -> Clock {
        self.clock.clone()
    }

    async fn connect(&self, _config: &Config) -> Result<Arc<dyn Backend>> {
        Ok(Arc::clone(&self.backend))
    }
}

struct MemoryLink(memory::Link);

struct Dropped(memory::Link);
struct Parked(memory::Link);

#[async_trait]
impl Link for MemoryLink {
    fn cut(&self) {
        self.0.cut();
    }

    fn heal(&self) {
        self.0.heal();
    }

    fn silence(&self) -> bool {
        self.0.hold();
        true
    }

    fn drop_reply(&self, _key: &str) -> Box<dyn Armed> {
        self.0.drop_next_reply();
        Box::new(Dropped(self.0.clone()))
    }

    fn park(&self, _key: &str) -> Box<dyn Armed> {
        self.0.park_next_request();
        Box::new(Parked(self.0.clone()))
    }

    fn delay(&self, delay: Duration) {
        self.0.delay(delay);
    }

    fn drop_wake(&self, queue: &Address, sequence: u64) -> bool {
        self.0.drop_next_wake(queue, sequence)
    }

    fn asked(&self) -> u64 {
        self.0.requests()
    }

    fn kill_renewal(&self) -> bool {
        self.0.stop_renewal();
        true
    }
}

#[async_trait]
impl Armed for Dropped {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        self.0.reply_dropped().await;
        Ok(())
    }

    async fn deliver(self: Box<Self>) {}
}

#[async_trait]
impl Armed for Parked {
    async fn caught(&mut self) -> std::result::Result<(), EventLost> {
        self.0.parked().await;
        Ok(())
    }

    async fn deliver(self: Box<Self>) {
        assert!(self.0.deliver_parked(), "a request was caught");
    }
}
