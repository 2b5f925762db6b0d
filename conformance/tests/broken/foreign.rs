//! The memory store has no place for foreign entries, so they are kept next to it. An honest backend does not
//! read them; the broken one lists them as nodes.
//!
//! The store has no history to compact, so only the broken watch notices a compaction, and ends without a
//! report.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_conformance::testbed::{Client, Fault, Fixture, Link, Testbed};
use latchwork_conformance::testbeds::MemoryTestbed;
use latchwork_core::backend::{Backend, ChangeWatch};
use latchwork_core::{Address, Capabilities, Config, Connector, Result};

use super::defect::Defect;
use super::wrapper::BrokenNode;

type Plants = Arc<Mutex<HashSet<Address>>>;

type Compactions = Arc<AtomicU64>;

#[derive(Debug)]
pub(crate) struct PlantTestbed {
    memory: MemoryTestbed,
    plants: Plants,
    compactions: Compactions,
}

impl PlantTestbed {
    pub(crate) fn honest() -> Self {
        Self { memory: MemoryTestbed::new(), plants: Plants::default(), compactions: Compactions::default() }
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
        Ok(Box::new(PlantFixture {
            memory: self.memory.fixture().await?,
            plants: Arc::clone(&self.plants),
            compactions: Arc::clone(&self.compactions),
        }))
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
    compactions: Compactions,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Fixture for PlantFixture {
    fn can(&self, fault: Fault) -> bool {
        matches!(fault, Fault::Plant | Fault::Compact) || self.memory.can(fault)
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

    async fn compact(&self) -> Result<()> {
        self.compactions.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    async fn requests(&self) -> Result<u64> {
        self.memory.requests().await
    }

    async fn end_lease(&self, label: &str, granted: Duration) -> Result<Vec<Duration>> {
        self.memory.end_lease(label, granted).await
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

    async fn process_link(&self) -> Result<Option<(Config, Arc<dyn Link>)>> {
        self.memory.process_link().await
    }
}

#[derive(Default)]
pub(super) struct CountsPlants(Plants);

#[async_trait]
impl Defect for CountsPlants {
    fn testbed(&self, memory: MemoryTestbed) -> Box<dyn Testbed> {
        Box::new(PlantTestbed { memory, plants: Arc::clone(&self.0), compactions: Compactions::default() })
    }

    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let planted = self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&node.join.queue);
        if planted {
            return std::future::pending().await;
        }
        node.honest.admitted().await
    }
}

#[derive(Default)]
pub(super) struct ForgetsWatches(Compactions);

impl Defect for ForgetsWatches {
    fn testbed(&self, memory: MemoryTestbed) -> Box<dyn Testbed> {
        Box::new(PlantTestbed { memory, plants: Plants::default(), compactions: Arc::clone(&self.0) })
    }

    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        let made_at = self.0.load(Ordering::Acquire);
        Box::new(Forgotten { honest: honest.watch_cell(cell), compactions: Arc::clone(&self.0), made_at })
    }
}

#[derive(Debug)]
struct Forgotten {
    honest: Box<dyn ChangeWatch>,
    compactions: Compactions,
    made_at: u64,
}

#[async_trait]
impl ChangeWatch for Forgotten {
    async fn changed(&mut self) -> Result<()> {
        let news = self.honest.changed().await;
        if self.compactions.load(Ordering::Acquire) > self.made_at {
            std::future::pending::<()>().await;
        }
        news
    }
}
