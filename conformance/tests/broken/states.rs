//! What clients are shown of their leases and nodes, and should not be.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Close, Join, Joined, LeaseWriter, Node, NodeState, NodeWriter};
use latchwork_core::{Clock, Lease, LeaseState, LostReason, Result};

use super::wrapper::{BrokenNode, Defect};

const FOR_EVER: Duration = Duration::from_secs(3600);

/// Nodes show a state of their own.
#[derive(Debug)]
pub(super) struct States(pub(super) fn(&Arc<dyn Node>) -> Arc<NodeWriter>);

#[async_trait]
impl Defect for States {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some((self.0)(node))
    }
}

fn with_lease(node: &Arc<dyn Node>, lease: LeaseWriter) -> Arc<NodeWriter> {
    Arc::new(NodeWriter::new(lease, node.state().sequence()))
}

pub(super) fn report_when_lost(node: &Arc<dyn Node>, own: &Arc<NodeWriter>) {
    let (node, own) = (Arc::clone(node), Arc::downgrade(own));
    tokio::spawn(async move {
        let reason = node.state().until_lost().await;
        if let Some(own) = own.upgrade() {
            own.gone(reason);
        }
    });
}

/// Proven by the join, and by nothing after it.
pub(super) fn unproven(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let lease = node.state().lease();
    let own = with_lease(node, LeaseWriter::new(lease.clock().clone(), lease.ttl(), lease.clock().now()));
    report_when_lost(node, &own);
    own
}

/// On a clock that does not count sleep, and without a deadline: only a task reports the loss.
pub(super) fn lost_by_a_task(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let clock = Clock::tokio();
    let now = clock.now();
    let own = with_lease(node, LeaseWriter::new(clock, FOR_EVER, now));
    report_when_lost(node, &own);
    own
}

/// No loss is reported.
pub(super) fn lost_never(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let clock = node.state().lease().clock().clone();
    let now = clock.now();
    with_lease(node, LeaseWriter::new(clock, FOR_EVER, now))
}

/// Lost half a TTL later than the contract says.
pub(super) fn too_long(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let own = lost_never(node);
    let (node, late) = (Arc::clone(node), Arc::downgrade(&own));
    tokio::spawn(async move {
        let reason = node.state().until_lost().await;
        tokio::time::sleep(node.state().lease().ttl() / 2).await;
        if let Some(late) = late.upgrade() {
            late.gone(reason);
        }
    });
    own
}

/// The server's side of a client that was admitted dies, and the client does not hear of it.
#[derive(Debug)]
pub(super) struct DiesWhenAdmitted;

#[async_trait]
impl Defect for DiesWhenAdmitted {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(join).await?;
        if matches!(joined, Joined::Admitted(_)) {
            honest.close(Close::Abrupt).await?;
        }
        Ok(joined)
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some(lost_never(node))
    }
}

/// Neither its nodes nor the client are ever suspended.
#[derive(Debug)]
pub(super) struct NeverSuspended;

#[async_trait]
impl Defect for NeverSuspended {
    fn lease(&self, honest: Lease) -> Lease {
        LeaseWriter::new(honest.clock().clone(), honest.ttl(), honest.clock().now()).into()
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some(lost_by_a_task(node))
    }
}

/// A hold that was lost by its deadline lives again as soon as the client has contact.
#[derive(Debug)]
pub(super) struct Revives;

#[async_trait]
impl Defect for Revives {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some(lost_never(node))
    }

    fn shown<'a>(&self, node: &'a BrokenNode) -> &'a NodeState {
        let honest = node.honest.state();
        match (honest.lost(), node.backend.lease().state(), &node.own) {
            (Some(LostReason::Expired), LeaseState::Live, Some(own)) => own,
            _ => honest,
        }
    }
}

/// Another lease is shown than the one that nodes hang on.
#[derive(Debug)]
pub(super) struct Reports(pub(super) fn(&Lease) -> Lease);

#[async_trait]
impl Defect for Reports {
    fn lease(&self, honest: Lease) -> Lease {
        (self.0)(&honest)
    }
}

pub(super) fn without_margin(honest: &Lease) -> Lease {
    let lease = LeaseWriter::new(honest.clock().clone(), honest.ttl(), honest.clock().now());
    lease.proven_until(lease.opened(), honest.deadline() + honest.margin());
    lease.into()
}
