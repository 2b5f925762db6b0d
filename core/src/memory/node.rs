//! A node of one client in a store.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::client::Shared;
use super::store::{LeaseId, moment};
use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Leave, Node, NodeId, NodeKeeper, NodeState};
use crate::decide::queue::Answer;
use crate::decide::{Claim, recheck, renewal_period};
use crate::error::{Error, LostReason, Result};

pub(super) struct MemoryNode {
    pub(super) queue: Address,
    pub(super) id: NodeId,
    pub(super) lease: LeaseId,
    pub(super) label: Arc<str>,
    pub(super) joined: Moment,
    // A request of its join may still be on its way: it must meet a tombstone.
    pub(super) repeated: AtomicBool,
    // A leave of its own has removed it, whether or not that was answered.
    pub(super) removed: AtomicBool,
    state: NodeKeeper,
    claim: Claim,
    woken: Notify,
    // Weak: the store keeps the node, and must not keep the client of a dead handle alive.
    client: Weak<Shared>,
}

impl MemoryNode {
    pub(super) fn new(
        queue: Address,
        id: NodeId,
        lease: LeaseId,
        label: Arc<str>,
        claim: Claim,
        state: NodeKeeper,
        client: Weak<Shared>,
    ) -> Self {
        let joined = state.lease().clock().now();
        Self {
            queue,
            id,
            lease,
            label,
            joined,
            repeated: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            state,
            claim,
            woken: Notify::new(),
            client,
        }
    }

    pub(super) fn sequence(&self) -> u64 {
        self.state.sequence()
    }

    pub(super) fn wake(&self) {
        // Kept for a waiter that is not waiting at this instant.
        self.woken.notify_one();
    }

    pub(super) fn lose(&self, reason: LostReason) {
        self.state.gone(reason);
    }

    fn client(&self) -> Result<Arc<Shared>> {
        self.client.upgrade().ok_or_else(Error::closed)
    }
}

#[async_trait]
impl Node for MemoryNode {
    fn state(&self) -> &NodeState {
        &self.state
    }

    async fn admitted(&self) -> Result<()> {
        let clock = self.state.lease().clock();
        loop {
            if let Some(reason) = self.state.lost() {
                return Err(Error::lost(reason));
            }
            let client = self.client()?;
            let (store, queue, id, sequence) =
                (client.store.clone(), self.queue.clone(), self.id, self.sequence());
            let looked = client.link.request(move || store.look(&queue, id, sequence)).await;
            let period = renewal_period(self.state.lease().ttl());
            let next = match looked {
                Ok(Answer::Admitted { .. }) => return Ok(()),
                Ok(Answer::Waiting { ahead_expires, .. }) => {
                    recheck(clock.now() + period, moment(ahead_expires))
                }
                Ok(Answer::Conflict { stored }) => return Err(self.claim.outweighs(&stored.into())),
                Ok(_) => {
                    // Not by its own lease's end, or the look at the top would have seen it.
                    self.state.gone(LostReason::Revoked);
                    continue;
                }
                Err(error) if error.is_retryable() => clock.now() + period / 4,
                Err(error) => return Err(error),
            };
            tokio::select! {
                () = self.woken.notified() => {}
                _ = self.state.until_lost() => {}
                () = clock.sleep_until(next) => {}
            }
        }
    }

    async fn leave(&self) -> Result<Leave> {
        let client = self.client()?;
        let (store, queue, id, sequence) =
            (client.store.clone(), self.queue.clone(), self.id, self.sequence());
        let tombstone = self.repeated.load(Ordering::Acquire);
        let leave = move || match tombstone {
            true => store.abandon(&queue, id),
            false => store.leave(&queue, id, sequence),
        };
        let was_there = client.link.request(leave).await?;
        Ok(Leave::of(was_there || self.removed.load(Ordering::Acquire)))
    }

    async fn downgrade(&self) -> Result<()> {
        let client = self.client()?;
        let (store, queue, id, sequence) =
            (client.store.clone(), self.queue.clone(), self.id, self.sequence());
        let is_shared = client.link.request(move || store.downgrade(&queue, id, sequence)).await?;
        if is_shared {
            return Ok(());
        }
        self.state.gone(LostReason::Revoked);
        Err(Error::lost(self.state.lost().unwrap_or(LostReason::Revoked)))
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryNode")
            .field("queue", &self.queue)
            .field("id", &self.id)
            .field("state", &self.state)
            .finish()
    }
}
