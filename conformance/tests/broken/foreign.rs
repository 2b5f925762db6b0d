//! NODE-FOREIGN: a store in which something foreign can be planted. The memory store has no place
//! for it, so the plants stand beside it: an honest backend does not look at them, the broken one
//! takes them for nodes.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_conformance::testbed::{Client, Fault, Fixture, Testbed};
use latchwork_conformance::testbeds::MemoryTestbed;
use latchwork_core::{Address, Capabilities, Config, Connector, Result};

use super::wrapper::{BrokenNode, Defect, wrap};

type Plants = Arc<Mutex<HashSet<Address>>>;

/// The memory backend, with a fixture that plants.
#[derive(Debug)]
pub(crate) struct PlantTestbed {
    memory: MemoryTestbed,
    plants: Plants,
}

impl PlantTestbed {
    /// Foreign entries do no harm.
    pub(crate) fn honest() -> Self {
        Self { memory: MemoryTestbed::new(), plants: Plants::default() }
    }

    /// Waiters wait behind foreign entries.
    pub(crate) fn broken(name: &'static str) -> Self {
        let plants = Plants::default();
        let defect = CountsPlants(Arc::clone(&plants));
        Self { memory: MemoryTestbed::broken(name, wrap(defect)), plants }
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Testbed for PlantTestbed {
    fn name(&self) -> &str {
        self.memory.name()
    }

    fn is_paused(&self) -> bool {
        self.memory.is_paused()
    }

    fn capabilities(&self) -> Capabilities {
        self.memory.capabilities()
    }

    async fn fixture(&self) -> Result<Box<dyn Fixture>> {
        Ok(Box::new(PlantFixture { memory: self.memory.fixture().await?, plants: Arc::clone(&self.plants) }))
    }

    async fn close(&self) {
        self.memory.close().await;
    }

    fn connectors(&self) -> Vec<Arc<dyn Connector>> {
        self.memory.connectors()
    }
}

struct PlantFixture {
    memory: Box<dyn Fixture>,
    plants: Plants,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Fixture for PlantFixture {
    fn can(&self, fault: Fault) -> bool {
        fault == Fault::Plant || self.memory.can(fault)
    }

    fn config(&self) -> Config {
        self.memory.config()
    }

    async fn client(&self, config: &Config) -> Result<Client> {
        self.memory.client(config).await
    }

    async fn contents(&self) -> Result<Vec<String>> {
        self.memory.contents().await
    }

    async fn remove(&self, queue: &Address, sequence: u64) -> Result<()> {
        self.memory.remove(queue, sequence).await
    }

    async fn plant(&self, queue: &Address) -> Result<()> {
        self.plants.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone());
        Ok(())
    }

    async fn requests(&self) -> Result<u64> {
        self.memory.requests().await
    }

    fn expiry_bound(&self) -> Duration {
        self.memory.expiry_bound()
    }

    fn exact_name(&self) -> String {
        self.memory.exact_name()
    }

    fn process_config(&self) -> Option<Config> {
        self.memory.process_config()
    }
}

#[derive(Debug)]
struct CountsPlants(Plants);

#[async_trait]
impl Defect for CountsPlants {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let planted = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&node.join.queue);
        if planted {
            return std::future::pending().await;
        }
        node.honest.admitted().await
    }
}
