use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Close, Join, Joined, LeaseWriter, Node, NodeState, NodeWriter};
use latchwork_core::{Clock, Lease, LeaseState, LostReason, Result};

use super::defect::Defect;
use super::wrapper::BrokenNode;

const FOR_EVER: Duration = Duration::from_secs(3600);

pub(super) struct States(pub(super) fn(&Arc<dyn Node>) -> Arc<NodeWriter>);

impl Defect for States {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some((self.0)(node))
    }
}

fn with_lease(node: &Arc<dyn Node>, lease: LeaseWriter) -> Arc<NodeWriter> {
    Arc::new(NodeWriter::new(lease, node.state().sequence()))
}

/// Reports nothing after the client has dropped the node.
pub(super) fn report(own: &Arc<NodeWriter>, end: impl Future<Output = LostReason> + Send + 'static) {
    let own = Arc::downgrade(own);
    tokio::spawn(async move {
        let reason = end.await;
        if let Some(own) = own.upgrade() {
            own.gone(reason);
        }
    });
}

pub(super) fn report_when_lost(node: &Arc<dyn Node>, own: &Arc<NodeWriter>) {
    let node = Arc::clone(node);
    report(own, async move { node.state().until_lost().await });
}

pub(super) fn report_later(node: &Arc<dyn Node>, own: &Arc<NodeWriter>, late: fn(&Lease) -> Duration) {
    let node = Arc::clone(node);
    report(own, async move {
        let reason = node.state().until_lost().await;
        tokio::time::sleep(late(node.state().lease())).await;
        reason
    });
}

/// The join proves the lease, but no later reply does.
pub(super) fn unproven(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let lease = node.state().lease();
    let own = with_lease(node, LeaseWriter::new(lease.clock().clone(), lease.ttl(), lease.clock().now()));
    report_when_lost(node, &own);
    own
}

/// Uses a clock that does not count sleep, and no deadline: only a task reports the loss.
pub(super) fn lost_by_a_task(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let clock = Clock::tokio();
    let now = clock.now();
    let own = with_lease(node, LeaseWriter::new(clock, FOR_EVER, now));
    report_when_lost(node, &own);
    own
}

pub(super) fn lost_never(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let clock = node.state().lease().clock().clone();
    let now = clock.now();
    with_lease(node, LeaseWriter::new(clock, FOR_EVER, now))
}

pub(super) fn suspended(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let own = lost_never(node);
    own.lease_writer().suspend();
    own
}

pub(super) fn too_long(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let own = lost_never(node);
    report_later(node, &own, |lease| lease.ttl() / 2);
    own
}

/// Ends the server's side of an admitted client, without a report.
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

pub(super) struct NeverSuspended;

impl Defect for NeverSuspended {
    fn lease(&self, honest: Lease) -> Lease {
        LeaseWriter::new(honest.clock().clone(), honest.ttl(), honest.clock().now()).into()
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        Some(lost_by_a_task(node))
    }
}

/// Revives a hold that its deadline ended, as soon as the client has contact.
pub(super) struct Revives;

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

pub(super) struct Reports(pub(super) fn(&Lease) -> Lease);

impl Defect for Reports {
    fn lease(&self, honest: Lease) -> Lease {
        (self.0)(&honest)
    }
}

pub(super) fn half_of_its_ttl(honest: &Lease) -> Lease {
    LeaseWriter::new(honest.clock().clone(), honest.ttl() / 2, honest.clock().now()).into()
}

pub(super) fn without_margin(honest: &Lease) -> Lease {
    let lease = LeaseWriter::new(honest.clock().clone(), honest.ttl(), honest.clock().now());
    lease.proven_until(lease.opened(), honest.deadline() + honest.margin());
    lease.into()
}
