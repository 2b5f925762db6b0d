use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Close, EntryPage, Join, Joined, Leave, Node, NodeWriter};
use latchwork_core::{Address, Error, ErrorKind, Kind, LeaseState, LostReason, Result};
use tokio::sync::RwLock;

use super::defect::Defect;
use super::leaves::is_repeated;
use super::states::lost_never;
use super::wrapper::BrokenNode;

pub(super) struct RefusesWhileSuspended;

#[async_trait]
impl Defect for RefusesWhileSuspended {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.lease().state() {
            LeaseState::Suspended => Err(Error::new(ErrorKind::Misconfigured, "suspended")),
            _ => honest.join(join).await,
        }
    }
}

pub(super) struct LeavesWhenLost(pub(super) LostReason);

impl Defect for LeavesWhenLost {
    fn made(&self, node: &Arc<BrokenNode>) {
        let (node, reason) = (Arc::clone(&node.honest), self.0);
        tokio::spawn(async move {
            if node.state().until_lost().await == reason {
                let _ = node.leave().await;
            }
        });
    }
}

/// Reports no removal. From the leave of this number on, it answers as if the node had existed.
pub(super) struct Believes {
    pub(super) asks: u32,
}

#[async_trait]
impl Defect for Believes {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some(lost_never(node))
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        let left = node.honest.leave().await?;
        let believes = node.leaves.load(Ordering::Acquire) >= self.asks;
        Ok(if believes { Leave::Removed } else { left })
    }
}

/// Reports a leave without a reply as not sent; the next leave finds no node.
pub(super) struct ForgetsThatItAsked;

#[async_trait]
impl Defect for ForgetsThatItAsked {
    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        match node.honest.leave().await {
            Err(error) if error.kind() == ErrorKind::OutcomeUnknown => {
                Err(Error::new(ErrorKind::Unavailable, "this backend says that the request was not sent"))
            }
            Ok(Leave::Removed) if is_repeated(node) => Ok(Leave::of(false)),
            left => left,
        }
    }
}

pub(super) struct ClosesHere;

#[async_trait]
impl Defect for ClosesHere {
    async fn close(&self, honest: &dyn Backend, _how: Close) -> Result<()> {
        honest.close(Close::Abrupt).await
    }
}

pub(super) struct ClosesOnce;

#[async_trait]
impl Defect for ClosesOnce {
    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        let anything = Address::new("latchwork", Kind::Mutex, "anything")?;
        match honest.list(&anything, EntryPage::new(0, 1)).await {
            Err(unreached) if unreached.may_pass() => honest.close(Close::Abrupt).await.and(Err(unreached)),
            _ => honest.close(how).await,
        }
    }
}

/// No node of a client is removed before its close ends. Then no client gets an answer until all nodes are
/// removed.
#[derive(Default)]
pub(super) struct EndsInOneStall {
    nodes: AtomicU32,
    stall: RwLock<()>,
}

#[async_trait]
impl Defect for EndsInOneStall {
    fn made(&self, _node: &Arc<BrokenNode>) {
        self.nodes.fetch_add(1, Ordering::AcqRel);
    }

    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let _answered = self.stall.read().await;
        honest.join(join).await
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        if node.honest.state().lost() == Some(LostReason::Closed) {
            return Ok(Leave::Removed);
        }
        self.nodes.fetch_sub(1, Ordering::AcqRel);
        node.honest.leave().await
    }

    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        let _nobody = self.stall.write().await;
        let nodes = self.nodes.swap(0, Ordering::AcqRel);
        tokio::time::sleep(Duration::from_millis(1) * nodes).await;
        honest.close(how).await
    }
}

pub(super) struct NeverReopens;

#[async_trait]
impl Defect for NeverReopens {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        match honest.lease().lost() {
            Some(_) => Err(Error::new(ErrorKind::Unavailable, "the lease is gone")),
            None => honest.join(join).await,
        }
    }
}

/// Affects everything, because the first join after a loss is a registration.
pub(super) struct WaitsBehindItself;

#[async_trait]
impl Defect for WaitsBehindItself {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let lease = honest.lease();
        if lease.lost().is_some() {
            lease.clock().sleep_until(lease.deadline() + lease.margin()).await;
        }
        honest.join(join).await
    }
}

/// The server keeps a crashed client alive.
pub(super) struct NeverDies;

#[async_trait]
impl Defect for NeverDies {
    async fn close(&self, honest: &dyn Backend, how: Close) -> Result<()> {
        match how {
            Close::Orderly => honest.close(how).await,
            Close::Abrupt => Ok(()),
        }
    }
}
