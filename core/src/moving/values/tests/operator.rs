use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{Both, Fault, World, alone, join, place, read_stage};
use crate::contracts::{ChangeWatch, EntryPage, Leave, Node};
use crate::decide::Claim;
use crate::decide::moving::values::{WholeStage, WholeStep};
use crate::decide::moving::{Side, Way};
use crate::error::Result;
use crate::memory::Link;
use crate::moving::staged::Staged;
use crate::moving::values::carry::{Operates, carry};
use crate::moving::values::mirror::Copying;

pub(super) struct Operator {
    both: Both,
    watch: Mutex<Option<Box<dyn ChangeWatch>>>,
    fault: Option<Fault>,
}

impl Operator {
    pub(super) fn new(world: &World, fault: Option<Fault>) -> Self {
        Self { both: world.client(), watch: Mutex::default(), fault }
    }

    pub(super) fn links(&self) -> [Link; 2] {
        [self.both.old.1.clone(), self.both.new.1.clone()]
    }

    pub(super) fn copying(&self, from: Side) -> Copying {
        let to = if from == Side::Old { Side::New } else { Side::Old };
        Copying { source: self.both.place(from), target: self.both.place(to) }
    }

    pub(super) async fn goes(&self, way: Way, last: WholeStage) {
        while !self.step(way, last).await.unwrap_or(false) {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    async fn step(&self, way: Way, last: WholeStage) -> Result<bool> {
        let read = read_stage(&*self.both.old.0).await?;
        let whole = read.whole();
        if whole.stage.phase == last.stage.phase {
            return Ok(true);
        }
        match whole.step(&read.version.number(), self.acknowledged().await?, way) {
            WholeStep::Write(next) => {
                self.write_stage(&read, next).await?;
            }
            WholeStep::Mirror { then, .. } if self.fault == Some(Fault::WritesNothing) => {
                self.write_stage(&read, then).await?;
            }
            WholeStep::Mirror { from, .. } => {
                carry(self, &self.copying(from), from).await?;
            }
            WholeStep::Waits => self.news().await?,
            other => panic!("{other:?} at {whole:?}"),
        }
        Ok(false)
    }
}

#[async_trait]
impl Operates for Operator {
    async fn stage(&self) -> Result<Option<Staged>> {
        Staged::read(&*self.both.old.0, &place()).await
    }

    async fn write_stage(&self, over: &Staged, whole: WholeStage) -> Result<Option<Staged>> {
        Staged::write(&*self.both.old.0, &place(), Some(over), over.id, whole, false).await
    }

    async fn acknowledged(&self) -> Result<Vec<Option<u64>>> {
        let listed = self.both.old.0.list(&place().members, EntryPage::new(0, 1000)).await?;
        let version = |data: &[u8]| std::str::from_utf8(data).ok()?.parse().ok();
        Ok(listed.iter().map(|entry| version(&entry.data)).collect())
    }

    async fn news(&self) -> Result<()> {
        let mut watch = self.watch.lock().await;
        let watching = watch.get_or_insert_with(|| self.both.old.0.watch_queue(&place().members));
        // An event may be lost, and the death of a member sends none.
        let changed = tokio::time::timeout(Duration::from_secs(1), watching.changed()).await;
        if changed.as_ref().is_ok_and(Result::is_err) {
            *watch = None;
        }
        changed.unwrap_or(Ok(()))
    }

    async fn hold(&self, on: Side) -> Result<Arc<dyn Node>> {
        let place = self.both.place(on);
        let node = join(&*place.backend, alone(), Claim::Exclusive).await?;
        match node.admitted().await {
            Ok(()) => Ok(node),
            Err(error) => {
                self.give_back(node).await?;
                Err(error)
            }
        }
    }

    async fn give_back(&self, node: Arc<dyn Node>) -> Result<()> {
        node.leave().await.map(|_: Leave| ())
    }
}
