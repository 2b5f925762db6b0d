use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use latchwork_core::Result;
use latchwork_core::backend::{Backend, Join, Joined, Leave, Node, NodeId, Patience};

use super::defect::Defect;
use super::wrapper::BrokenNode;

pub(super) struct Joins(pub(super) fn(&Join) -> Join);

#[async_trait]
impl Defect for Joins {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        honest.join(&(self.0)(join)).await
    }
}

pub(super) fn as_another_if_repeated(join: &Join) -> Join {
    let id = if join.repeated { NodeId::random() } else { join.id };
    Join { id, repeated: false, ..join.clone() }
}

/// Hides from a node that a request of its join may be on its way.
pub(super) fn as_the_first(join: &Join) -> Join {
    Join { repeated: false, ..join.clone() }
}

pub(super) fn without_data(join: &Join) -> Join {
    Join { data: Arc::default(), ..join.clone() }
}

/// Removes an abandoned attempt's node without a tombstone.
pub(super) struct NoTombstone;

#[async_trait]
impl Defect for NoTombstone {
    async fn abandon(&self, honest: &dyn Backend, join: &Join) -> Result<()> {
        let found = Join { repeated: false, patience: Patience::Wait, ..join.clone() };
        match honest.join(&found).await? {
            Joined::Admitted(node) | Joined::Waiting(node) => node.leave().await.map(drop),
            Joined::Refused => Ok(()),
        }
    }
}

#[derive(Default)]
pub(super) struct LeavesNewer(Mutex<HashMap<u64, Arc<dyn Node>>>);

#[async_trait]
impl Defect for LeavesNewer {
    fn made(&self, node: &Arc<BrokenNode>) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node.sequence(), Arc::clone(&node.honest));
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        if !is_repeated(node) {
            return node.honest.leave().await;
        }
        let entries = node.listed().await?;
        let first = entries.first().and_then(|first| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&first.sequence).cloned()
        });
        match first {
            Some(first) => first.leave().await,
            None => Ok(Leave::Removed),
        }
    }
}

/// Answers a leave of these nodes without carrying it out.
pub(super) struct NeverLeaves(pub(super) fn(&BrokenNode) -> bool);

#[async_trait]
impl Defect for NeverLeaves {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        if (self.0)(node) { Ok(Leave::Removed) } else { node.honest.leave().await }
    }
}

pub(super) fn is_admitted(node: &BrokenNode) -> bool {
    node.honest.admitted().now_or_never().is_some()
}

pub(super) fn is_repeated(node: &BrokenNode) -> bool {
    node.leaves.load(Ordering::Acquire) > 1
}

pub(super) struct AnswersBeforeItLeaves;

#[async_trait]
impl Defect for AnswersBeforeItLeaves {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        let honest = Arc::clone(&node.honest);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            honest.leave().await
        });
        Ok(Leave::Removed)
    }
}

pub(super) struct IgnoresAbandon;

#[async_trait]
impl Defect for IgnoresAbandon {
    async fn abandon(&self, _honest: &dyn Backend, _join: &Join) -> Result<()> {
        Ok(())
    }
}

pub(super) struct LeavesLate;

#[async_trait]
impl Defect for LeavesLate {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        tokio::time::sleep(Duration::from_millis(1200)).await;
        node.honest.leave().await
    }
}
