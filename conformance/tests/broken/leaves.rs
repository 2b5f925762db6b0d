//! Joins that are repeated, and leaves that go wrong.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::FutureExt;
use latchwork_core::Result;
use latchwork_core::backend::{Backend, Join, Joined, Leave, Node, NodeId, Patience};

use super::order::ALL;
use super::wrapper::{BrokenNode, Defect};

#[derive(Debug)]
pub(super) struct NewIdForARetry;

#[async_trait]
impl Defect for NewIdForARetry {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match join.repeated {
            true => honest.join(&Join { id: NodeId::random(), repeated: false, ..join.clone() }).await,
            false => honest.join(join).await,
        }
    }
}

/// An abandoned attempt's node is removed, and nothing kept of it.
#[derive(Debug)]
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

/// A node does not know that a request of its join may still be on its way.
#[derive(Debug)]
pub(super) struct ForgetsRepeated;

#[async_trait]
impl Defect for ForgetsRepeated {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        honest.join(&Join { repeated: false, ..join.clone() }).await
    }
}

/// A leave that is repeated removes the first node by then.
#[derive(Debug, Default)]
pub(super) struct LeavesNewer(Mutex<HashMap<u64, Arc<dyn Node>>>);

#[async_trait]
impl Defect for LeavesNewer {
    fn made(&self, node: &Arc<BrokenNode>) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.insert(node.honest.state().sequence(), Arc::clone(&node.honest));
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        if node.leaves.load(Ordering::Acquire) == 1 {
            return node.honest.leave().await;
        }
        let entries = node.backend.list(&node.join.queue, ALL).await?;
        let first = entries.first().and_then(|first| {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&first.sequence).cloned()
        });
        match first {
            Some(first) => first.leave().await,
            None => Ok(Leave::Removed),
        }
    }
}

/// Only holders leave.
#[derive(Debug)]
pub(super) struct LeavesOnlyTheAdmitted;

#[async_trait]
impl Defect for LeavesOnlyTheAdmitted {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        match node.honest.admitted().now_or_never() {
            Some(_) => node.honest.leave().await,
            None => Ok(Leave::Removed),
        }
    }
}

#[derive(Debug)]
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

#[derive(Debug)]
pub(super) struct IgnoresAbandon;

#[async_trait]
impl Defect for IgnoresAbandon {
    async fn abandon(&self, _honest: &dyn Backend, _join: &Join) -> Result<()> {
        Ok(())
    }
}

/// Only the first leave of a node is sent.
#[derive(Debug)]
pub(super) struct DropsRepeatedLeaves;

#[async_trait]
impl Defect for DropsRepeatedLeaves {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        match node.leaves.load(Ordering::Acquire) {
            1 => node.honest.leave().await,
            _ => Ok(Leave::Removed),
        }
    }
}
