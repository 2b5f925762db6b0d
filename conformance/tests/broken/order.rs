//! Sequence numbers, admission and listings that are wrong.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, EntryPage, Join, Joined, Node, NodeWriter, QueueEntry};
use latchwork_core::{Address, Claim, Lease, Result};

use super::states::{lost_never, report_when_lost};
use super::wrapper::{BrokenNode, Defect};

/// All of a queue.
pub(super) const ALL: EntryPage = EntryPage::new(0, 1000);
/// How often these backends look.
pub(super) const LOOK: Duration = Duration::from_millis(10);

fn numbered(node: &Arc<dyn Node>, sequence: u64) -> Option<Arc<NodeWriter>> {
    let own = Arc::new(NodeWriter::new(lost_never(node).lease_writer().clone(), sequence));
    report_when_lost(node, &own);
    Some(own)
}

/// A function of the honest sequence number.
#[derive(Debug)]
pub(super) struct Numbers(pub(super) fn(u64) -> u64);

#[async_trait]
impl Defect for Numbers {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        numbered(node, (self.0)(node.state().sequence()))
    }
}

/// A counter for each lease.
#[derive(Debug, Default)]
pub(super) struct OwnCounters(Mutex<Vec<(Lease, u64)>>);

#[async_trait]
impl Defect for OwnCounters {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        let lease = node.state().lease();
        let mut counters = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !counters.iter().any(|(known, _)| known.same_as(lease)) {
            counters.push((lease.clone(), 0));
        }
        let (_, count) = counters.iter_mut().find(|(known, _)| known.same_as(lease))?;
        *count += 1;
        numbered(node, *count)
    }
}

/// A counter that an empty queue forgets.
#[derive(Debug, Default)]
pub(super) struct Restarts(Mutex<u64>);

#[async_trait]
impl Defect for Restarts {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        if honest.list(&join.queue, ALL).await?.is_empty() {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = 0;
        }
        honest.join(join).await
    }

    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *last += 1;
        numbered(node, *last)
    }
}

#[derive(Debug)]
pub(super) struct AdmitsEverybody;

#[async_trait]
impl Defect for AdmitsEverybody {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        Ok(match honest.join(join).await? {
            Joined::Waiting(node) => Joined::Admitted(node),
            other => other,
        })
    }
}

/// A reader looks at holders only, not at the waiters before it.
#[derive(Debug)]
pub(super) struct ReadersPassWriters;

#[async_trait]
impl Defect for ReadersPassWriters {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(join).await?;
        let entries = honest.list(&join.queue, ALL).await?;
        let writing = entries.iter().any(|entry| entry.admitted && entry.claim == Claim::Exclusive);
        Ok(match joined {
            Joined::Waiting(node) if join.claim == Claim::Shared && !writing => Joined::Admitted(node),
            other => other,
        })
    }
}

/// A reader that waits is admitted only when it is the first of all.
#[derive(Debug)]
pub(super) struct ReadersOneByOne;

#[async_trait]
impl Defect for ReadersOneByOne {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        node.honest.admitted().await?;
        while node.join.claim == Claim::Shared && first(node).await? != Some(node.honest.state().sequence()) {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

async fn first(node: &BrokenNode) -> Result<Option<u64>> {
    Ok(node.backend.list(&node.join.queue, ALL).await?.first().map(|entry| entry.sequence))
}

/// A heavy claim is content with one permit.
#[derive(Debug)]
pub(super) struct TakesWhatIsThere;

#[async_trait]
impl Defect for TakesWhatIsThere {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let claim = match join.claim {
            Claim::Permits(_) => Claim::Permits(1),
            other => other,
        };
        honest.join(&Join { claim, ..join.clone() }).await
    }
}

/// Any waiter that fits beside the holders comes in.
#[derive(Debug)]
pub(super) struct OvertakesPermits;

#[async_trait]
impl Defect for OvertakesPermits {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let (Claim::Permits(weight), Some(limit)) = (node.join.claim, node.join.limit.exactly()) else {
            return node.honest.admitted().await;
        };
        loop {
            let entries = node.backend.list(&node.join.queue, ALL).await?;
            let held = entries.iter().filter(|entry| entry.admitted).map(|entry| match entry.claim {
                Claim::Permits(weight) => weight,
                _ => 1,
            });
            if held.sum::<u32>() + weight <= limit {
                return Ok(());
            }
            if let Ok(admitted) = tokio::time::timeout(LOOK, node.honest.admitted()).await {
                return admitted;
            }
        }
    }
}

/// The end of the node before it counts as the admission.
#[derive(Debug)]
pub(super) struct AnyPredecessorAdmits;

#[async_trait]
impl Defect for AnyPredecessorAdmits {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let own = node.honest.state().sequence();
        let entries = node.backend.list(&node.join.queue, ALL).await?;
        let before = entries.iter().map(|entry| entry.sequence).rfind(|sequence| *sequence < own);
        while let Some(before) = before {
            let entries = node.backend.list(&node.join.queue, ALL).await?;
            if !entries.iter().any(|entry| entry.sequence == before) {
                return Ok(());
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

/// Another page is read than was asked for, or another listing answered than was read.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) asked: fn(EntryPage) -> EntryPage,
    pub(super) answered: fn(&mut Vec<QueueEntry>),
}

/// Shows what others wrote as their labels in another way.
pub(super) fn foreign_labels(entries: &mut [QueueEntry], shown: fn(&str) -> String) {
    let foreign = entries.iter_mut().filter(|entry| entry.label.starts_with("someone"));
    foreign.for_each(|entry| entry.label = shown(&entry.label));
}

/// Tells other times than the leases have left.
pub(super) fn leases(entries: &mut [QueueEntry], told: fn(Duration) -> Duration) {
    entries.iter_mut().for_each(|entry| entry.lease_left = entry.lease_left.map(told));
}

#[async_trait]
impl Defect for Lists {
    async fn list(&self, honest: &dyn Backend, queue: &Address, page: EntryPage) -> Result<Vec<QueueEntry>> {
        let mut entries = honest.list(queue, (self.asked)(page)).await?;
        (self.answered)(&mut entries);
        Ok(entries)
    }
}
