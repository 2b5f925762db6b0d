//! An operator.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;

use super::{Both, Fault, World, alone, join, members, read_stage, stage_cell, text};
use crate::contracts::{CellLife, CellWrite, CellWritten, ChangeWatch, Expected, Leave, Node, Page, Version};
use crate::decide::Claim;
use crate::decide::moving::values::{WholeStage, WholeStep};
use crate::decide::moving::{Side, Way};
use crate::error::Result;
use crate::memory::Link;
use crate::moving::values::carry::{Operates, carry};
use crate::moving::values::mirror::{Copying, Progress};

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

    /// Goes as far as it gets that way, with anybody beside it.
    pub(super) async fn goes(&self, way: Way, last: WholeStage) {
        while !self.step(way, last).await.unwrap_or(false) {
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// One step. Answers whether it is there.
    async fn step(&self, way: Way, last: WholeStage) -> Result<bool> {
        let (version, whole) = self.stage().await?;
        if whole.stage.phase == last.stage.phase {
            return Ok(true);
        }
        match whole.step(&version, self.acknowledged().await?, way) {
            WholeStep::Write(next) => {
                self.write_stage(version, next).await?;
            }
            WholeStep::Mirror { then, .. } if self.fault == Some(Fault::WritesNothing) => {
                self.write_stage(version, then).await?;
            }
            WholeStep::Mirror { from, .. } => {
                carry(self, &self.copying(from), from, &Progress::default()).await?;
            }
            WholeStep::Waits => self.news().await?,
            other => panic!("{other:?} at {whole:?}"),
        }
        Ok(false)
    }
}

#[async_trait]
impl Operates for Operator {
    async fn stage(&self) -> Result<(Version, WholeStage)> {
        read_stage(&*self.both.old.0).await
    }

    async fn write_stage(&self, over: Version, whole: WholeStage) -> Result<Option<Version>> {
        let write =
            CellWrite { expected: Expected::Version(over), value: Some(text(whole)), life: CellLife::Stays };
        Ok(match self.both.old.0.write_cell(&stage_cell(), &write).await? {
            CellWritten::Written(version) => Some(version),
            CellWritten::Refused(_) | CellWritten::Deleted { .. } => None,
        })
    }

    async fn acknowledged(&self) -> Result<Vec<Option<Version>>> {
        let (current, _) = self.stage().await?;
        let listed = self.both.old.0.list(&members(), Page::new(0, 1000)).await?;
        let is_current = |data: &[u8]| data == current.number().to_string().as_bytes();
        Ok(listed.iter().map(|entry| is_current(&entry.data).then_some(current)).collect())
    }

    async fn news(&self) -> Result<()> {
        let mut watch = self.watch.lock().await;
        let watching = watch.get_or_insert_with(|| self.both.old.0.watch_queue(&members()));
        // News may be lost, as a member's death may be.
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
