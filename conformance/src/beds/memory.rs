//! Memory, under tokio's paused clock.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::Backend;
use latchwork_core::memory::{self, Memory};
use latchwork_core::{
    Address, Capabilities, Clock, Config, Connector, Coordinator, Error, ErrorKind, Eviction, Result,
};

use crate::testbed::{Armed, Client, Fault, Link, Stage, Testbed};

/// What is done to a backend before the suite sees it: for deliberately broken ones.
pub type Wrap = fn(Arc<dyn Backend>) -> Arc<dyn Backend>;

/// The memory backend, each case with a store of its own.
#[derive(Debug)]
pub struct MemoryBed {
    name: &'static str,
    wrap: Wrap,
}

impl MemoryBed {
    /// The backend as it is.
    pub fn new() -> Self {
        Self { name: "memory", wrap: |backend| backend }
    }

    /// A backend with something broken: a control that the case for it fails.
    pub fn broken(name: &'static str, wrap: Wrap) -> Self {
        Self { name, wrap }
    }
}

impl Default for MemoryBed {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Testbed for MemoryBed {
    fn name(&self) -> &str {
        self.name
    }

    fn is_paused(&self) -> bool {
        true
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            lease_per_node: false,
            clean_try: true,
            prompt_revocation: true,
            survives_failover: false,
            exact_addresses: true,
            eviction: Eviction::Never,
        }
    }

    async fn stage(&self) -> Result<Box<dyn Stage>> {
        Ok(Box::new(MemoryStage { store: Memory::new(Clock::tokio()), wrap: self.wrap }))
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        vec![memory::connector()]
    }
}

struct MemoryStage {
    store: Memory,
    wrap: Wrap,
}

#[async_trait]
impl Stage for MemoryStage {
    fn can(&self, fault: Fault) -> bool {
        !matches!(fault, Fault::Plant | Fault::Processes | Fault::CountRequests)
    }

    fn config(&self) -> Config {
        Config::new("memory")
    }

    async fn client(&self, config: &Config) -> Result<Client> {
        let (backend, link) = self.store.client(config)?;
        let coordinator = Coordinator::new((self.wrap)(backend), config);
        Ok(Client { coordinator, link: Arc::new(MemoryLink(link)) })
    }

    async fn contents(&self) -> Result<Vec<String>> {
        Ok(self.store.contents())
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        match self.store.remove(queue, sequence) {
            true => Ok(()),
            false => Err(Error::invalid("sequence", "no such node")),
        }
    }

    async fn plant(&self, _queue: &Address) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported { capability: "plant" }, "a store holds nothing but nodes"))
    }

    async fn requests(&self) -> Result<u64> {
        Err(Error::new(ErrorKind::Unsupported { capability: "requests" }, "there is no server that counts"))
    }

    fn expiry_bound(&self) -> Duration {
        // Expiry is computed on access and in the waiters' timers: at once.
        Duration::ZERO
    }

    fn exact_name(&self) -> String {
        "/exact/name".to_owned()
    }

    fn process_config(&self) -> Option<Config> {
        None
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

    fn drop_reply(&self, _key: &str) -> Box<dyn Armed> {
        self.0.drop_next_reply();
        Box::new(Dropped(self.0.clone()))
    }

    fn park(&self, _key: &str) -> Box<dyn Armed> {
        self.0.park_next_request();
        Box::new(Parked(self.0.clone()))
    }

    fn kill_keeper(&self) -> bool {
        self.0.kill_keeper();
        true
    }
}

#[async_trait]
impl Armed for Dropped {
    async fn caught(&mut self) {
        self.0.reply_dropped().await;
    }

    async fn deliver(self: Box<Self>) {}
}

#[async_trait]
impl Armed for Parked {
    async fn caught(&mut self) {
        self.0.parked().await;
    }

    async fn deliver(self: Box<Self>) {
        assert!(self.0.deliver_parked(), "a request was caught");
    }
}
