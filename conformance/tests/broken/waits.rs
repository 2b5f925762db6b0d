use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt;
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::backend::{Backend, EntryPage, Join, Joined, LeaseWriter, Leave, Node, NodeWriter};
use latchwork_core::{Error, Lease, LostReason, Result};
use tokio::sync::Notify;

use super::defect::Defect;
use super::states::{lost_never, report, report_later};
use super::wrapper::{ALL, BrokenNode};

pub(super) struct LooksFirst;

#[async_trait]
impl Defect for LooksFirst {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        honest.list(&join.queue, ALL).await?;
        honest.join(join).await
    }
}

/// A waiter looks every third of a TTL, and gets no events.
pub(super) struct OnlyRechecks;

#[async_trait]
impl Defect for OnlyRechecks {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        loop {
            if let Some(admitted) = node.honest.admitted().now_or_never() {
                return admitted;
            }
            tokio::time::sleep(renewal_period(node.honest.state().lease().ttl())).await;
        }
    }
}

/// One waiter in this many looks at every departure.
pub(super) struct Herd {
    one_of: usize,
    waiters: AtomicUsize,
    departures: Notify,
}

impl Herd {
    pub(super) fn one_of(one_of: usize) -> Self {
        Self { one_of, waiters: AtomicUsize::new(0), departures: Notify::new() }
    }
}

#[async_trait]
impl Defect for Herd {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        if !self.waiters.fetch_add(1, Ordering::AcqRel).is_multiple_of(self.one_of) {
            return node.honest.admitted().await;
        }
        loop {
            tokio::select! {
                admitted = node.honest.admitted() => return admitted,
                () = self.departures.notified() => {
                    node.backend.list(&node.join.queue, EntryPage::new(0, 1)).await?;
                }
            }
        }
    }

    async fn leave(&self, node: &BrokenNode) -> Result<Leave> {
        let left = node.honest.leave().await;
        self.departures.notify_waiters();
        left
    }
}

/// A waiter gets its events at once, but misses a change whose event is lost.
pub(super) struct NoRecheck;

#[async_trait]
impl Defect for NoRecheck {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let lease = node.honest.state().lease();
        let (clock, by_itself) = (lease.clock(), renewal_period(lease.ttl()) / 5);
        let asked = clock.now();
        let admitted = node.honest.admitted().await;
        if admitted.is_ok() && clock.now().since(asked) >= by_itself {
            return std::future::pending().await;
        }
        admitted
    }
}

pub(super) struct SleepsThrough(pub(super) fn(&Error) -> bool);

#[async_trait]
impl Defect for SleepsThrough {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        match node.honest.admitted().await {
            Err(error) if (self.0)(&error) => std::future::pending().await,
            other => other,
        }
    }
}

/// Shows the state of the lease, but no removal.
pub(super) fn gone_never(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let own = lost_never(node);
    let (lease, mirror) = (node.state().lease().clone(), own.lease_writer().clone());
    tokio::spawn(async move { mirror.end(lease.until_lost().await) });
    own
}

pub(super) fn gone_as_expired(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let own = gone_never(node);
    let node = Arc::clone(node);
    report(&own, async move {
        node.state().until_lost().await;
        LostReason::Expired
    });
    own
}

pub(super) fn gone_at_a_renewal(node: &Arc<dyn Node>) -> Arc<NodeWriter> {
    let own = gone_never(node);
    report_later(node, &own, |lease| renewal_period(lease.ttl()));
    own
}

#[derive(Default)]
pub(super) struct EndsTheLease(Mutex<Vec<(Lease, LeaseWriter)>>);

impl Defect for EndsTheLease {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        let honest = node.state().lease();
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = leases.iter().position(|(lease, _)| lease.same_as(honest));
        let at = known.unwrap_or_else(|| {
            leases.push((honest.clone(), lost_never(node).lease_writer().clone()));
            leases.len() - 1
        });
        let lease = leases[at].1.clone();
        let own = Arc::new(NodeWriter::new(lease.clone(), node.state().sequence()));
        let (node, entered) = (Arc::clone(node), Arc::downgrade(&own));
        tokio::spawn(async move {
            let reason = node.state().until_lost().await;
            if entered.upgrade().is_some() {
                lease.end(reason);
            }
        });
        Some(own)
    }
}
