use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use latchwork_core::backend::{Backend, ChangeWatch, Join, Joined, Leave, VersionedValue};
use latchwork_core::{Address, ErrorKind, Result};

use super::defect::Defect;
use super::wrapper::BrokenNode;

pub(super) struct TellsOnce;

impl Defect for TellsOnce {
    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(Once { honest: honest.watch_cell(cell), told: 0 })
    }
}

pub(super) struct TellsOfOne;

impl Defect for TellsOfOne {
    fn watch_queue(&self, honest: &Arc<dyn Backend>, queue: &Address) -> Box<dyn ChangeWatch> {
        Box::new(Once { honest: honest.watch_queue(queue), told: 0 })
    }
}

#[derive(Debug)]
struct Once {
    honest: Box<dyn ChangeWatch>,
    told: usize,
}

#[async_trait]
impl ChangeWatch for Once {
    async fn changed(&mut self) -> Result<()> {
        // The first answer only shows that the watch is set.
        if self.told == 2 {
            std::future::pending::<()>().await;
        }
        self.honest.changed().await?;
        self.told += 1;
        Ok(())
    }
}

pub(super) struct WatchesOn;

#[async_trait]
impl Defect for WatchesOn {
    async fn read_cell(&self, honest: &dyn Backend, cell: &Address) -> Result<Option<VersionedValue>> {
        match honest.read_cell(cell).await {
            // Otherwise the next read would end the watch.
            Err(error) if error.kind() == ErrorKind::Closed => std::future::pending().await,
            read => read,
        }
    }

    fn watch_cell(&self, honest: &Arc<dyn Backend>, cell: &Address) -> Box<dyn ChangeWatch> {
        Box::new(On(honest.watch_cell(cell)))
    }
}

#[derive(Debug)]
struct On(Box<dyn ChangeWatch>);

#[async_trait]
impl ChangeWatch for On {
    async fn changed(&mut self) -> Result<()> {
        match self.0.changed().await {
            Err(error) if error.kind() == ErrorKind::Closed => std::future::pending().await,
            news => news,
        }
    }
}

pub(super) const JOINS: usize = 0;
pub(super) const LEAVES: usize = 1;
pub(super) const WRITES: usize = 2;

/// Reports only these operations.
pub(super) struct TellsOf {
    counts: Arc<[AtomicUsize; 3]>,
    of: &'static [usize],
}

impl TellsOf {
    pub(super) fn only(of: &'static [usize]) -> Self {
        Self { counts: Arc::default(), of }
    }

    fn count(&self, which: usize) {
        self.counts[which].fetch_add(1, Ordering::AcqRel);
    }
}

#[async_trait]
impl Defect for TellsOf {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        self.count(JOINS);
        honest.join(join).await
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        self.count(LEAVES);
        node.honest.leave().await
    }

    async fn write_data(&self, node: &BrokenNode, data: &Arc<[u8]>) -> Result<()> {
        self.count(WRITES);
        node.honest.write_data(data).await
    }

    fn watch_queue(&self, honest: &Arc<dyn Backend>, queue: &Address) -> Box<dyn ChangeWatch> {
        let (counts, of) = (Arc::clone(&self.counts), self.of);
        Box::new(Selective { honest: honest.watch_queue(queue), counts, of, last: None })
    }
}

#[derive(Debug)]
struct Selective {
    honest: Box<dyn ChangeWatch>,
    counts: Arc<[AtomicUsize; 3]>,
    of: &'static [usize],
    last: Option<usize>,
}

#[async_trait]
impl ChangeWatch for Selective {
    async fn changed(&mut self) -> Result<()> {
        loop {
            self.honest.changed().await?;
            let counts = self.of.iter().map(|which| self.counts[*which].load(Ordering::Acquire));
            let now = Some(counts.sum());
            if now != self.last {
                self.last = now;
                return Ok(());
            }
        }
    }
}
