use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{Backend, Join, Joined, Node, NodeWriter};
use latchwork_core::{Claim, Lease, Result};

use super::defect::Defect;
use super::states::{lost_never, report_when_lost};
use super::wrapper::{ALL, BrokenNode};

pub(super) const LOOK: Duration = Duration::from_millis(10);

fn numbered(node: &Arc<dyn Node>, sequence: u64) -> Option<Arc<NodeWriter>> {
    let own = Arc::new(NodeWriter::new(lost_never(node).lease_writer().clone(), sequence));
    report_when_lost(node, &own);
    Some(own)
}

pub(super) struct Numbers(pub(super) fn(u64) -> u64);

impl Defect for Numbers {
    fn state(&self, node: &Arc<dyn Node>) -> Option<Arc<NodeWriter>> {
        numbered(node, (self.0)(node.state().sequence()))
    }
}

#[derive(Default)]
pub(super) struct OwnCounters(Mutex<Vec<(Lease, u64)>>);

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

#[derive(Default)]
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

pub(super) struct Admits(pub(super) fn(&Join) -> bool);

#[async_trait]
impl Defect for Admits {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(join).await?;
        Ok(if (self.0)(join) { at_once(joined) } else { joined })
    }
}

pub(super) fn at_once(joined: Joined) -> Joined {
    match joined {
        Joined::Waiting(node) => Joined::Admitted(node),
        other => other,
    }
}

pub(super) struct ReadersPassWriters;

#[async_trait]
impl Defect for ReadersPassWriters {
    async fn join(&self, honest: &Arc<dyn Backend>, join: &Join) -> Result<Joined> {
        let joined = honest.join(join).await?;
        let entries = honest.list(&join.queue, ALL).await?;
        let writing = entries.iter().any(|entry| entry.admitted && entry.claim == Claim::Exclusive);
        Ok(if join.claim == Claim::Shared && !writing { at_once(joined) } else { joined })
    }
}

/// Admits a reader only as the first of all.
pub(super) struct ReadersOneByOne;

#[async_trait]
impl Defect for ReadersOneByOne {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        node.honest.admitted().await?;
        let own = Some(node.sequence());
        while node.join.claim == Claim::Shared
            && node.listed().await?.first().map(|entry| entry.sequence) != own
        {
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }
}

pub(super) fn for_one_permit(join: &Join) -> Join {
    let claim = match join.claim {
        Claim::Permits(_) => Claim::Permits(1),
        other => other,
    };
    Join { claim, ..join.clone() }
}

pub(super) struct OvertakesPermits;

#[async_trait]
impl Defect for OvertakesPermits {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        let (Claim::Permits(weight), Some(limit)) = (node.join.claim, node.join.limit.exactly()) else {
            return node.honest.admitted().await;
        };
        loop {
            let entries = node.listed().await?;
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

async fn until_predecessor_left(node: &BrokenNode) -> Result<()> {
    let own = node.sequence();
    let entries = node.listed().await?;
    let before = entries.iter().map(|entry| entry.sequence).rfind(|sequence| *sequence < own);
    while let Some(before) = before
        && node.listed().await?.iter().any(|entry| entry.sequence == before)
    {
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

pub(super) struct AnyPredecessorAdmits;

#[async_trait]
impl Defect for AnyPredecessorAdmits {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        until_predecessor_left(node).await
    }
}

/// Only this departure wakes the waiter.
pub(super) struct OnlyThePredecessor;

#[async_trait]
impl Defect for OnlyThePredecessor {
    async fn admitted(&self, node: &BrokenNode) -> Result<()> {
        until_predecessor_left(node).await?;
        node.honest.admitted().await
    }
}
