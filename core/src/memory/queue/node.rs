use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;

use super::wait;
use crate::address::Address;
use crate::contracts::{CellWrite, CellWritten, Leave, Node, NodeState};
use crate::decide::Claim;
use crate::error::{Error, LostReason, Result};
use crate::memory::client::MemoryClient;
use crate::memory::stored_node::StoredNode;
use crate::support::no_replicas;

pub(super) struct MemoryNode {
    stored: Arc<StoredNode>,
    claim: Claim,
    // Weak, so that a hold does not keep a dropped client alive.
    client: Weak<MemoryClient>,
}

impl MemoryNode {
    pub(super) fn new(stored: Arc<StoredNode>, claim: Claim, client: Weak<MemoryClient>) -> Self {
        Self { stored, claim, client }
    }

    fn client(&self) -> Result<Arc<MemoryClient>> {
        self.client.upgrade().ok_or_else(Error::closed)
    }

    /// A node that has left counts as removed, not as lost.
    fn revoked(&self) -> Error {
        let state = &self.stored.state;
        if !self.stored.removed.load(Ordering::Acquire) {
            state.gone(LostReason::Revoked);
        }
        Error::lost(state.lost().unwrap_or(LostReason::Revoked))
    }
}

#[async_trait]
impl Node for MemoryNode {
    fn state(&self) -> &NodeState {
        &self.stored.state
    }

    async fn admitted(&self) -> Result<()> {
        wait::admitted(&self.client, &self.stored, self.claim).await
    }

    async fn leave(&self) -> Result<Leave> {
        let client = self.client()?;
        let (store, node) = (client.store.clone(), Arc::clone(&self.stored));
        let tombstone = node.repeated.load(Ordering::Acquire);
        let leave = move || match tombstone {
            true => store.abandon(&node.queue, node.id),
            false => store.leave(&node.queue, node.id, node.sequence()),
        };
        let was_there = client.link.request("leave", leave).await?;
        Ok(Leave::of(was_there || self.stored.removed.load(Ordering::Acquire)))
    }

    async fn downgrade(&self) -> Result<()> {
        let client = self.client()?;
        let (store, node) = (client.store.clone(), Arc::clone(&self.stored));
        let downgrade = move || store.downgrade(&node.queue, node.id, node.sequence());
        match client.link.request("write", downgrade).await? {
            true => Ok(()),
            false => Err(self.revoked()),
        }
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        let client = self.client()?;
        let (store, node, data) = (client.store.clone(), Arc::clone(&self.stored), Arc::clone(data));
        match client.link.request("write", move || store.write_data(&node, &data)).await? {
            true => Ok(()),
            false => Err(self.revoked()),
        }
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let client = self.client()?;
        let (store, node) = (client.store.clone(), Arc::clone(&self.stored));
        let (cell, write) = (cell.clone(), write.clone());
        let held =
            move || store.write_cell_held((&node.queue, node.id, node.sequence()), node.lease, &cell, &write);
        client.link.request("look", held).await?.ok_or_else(|| self.revoked())
    }

    async fn confirm(&self, _replicas: u32, _within: Duration) -> Result<()> {
        no_replicas()
    }
}

impl fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StoredNode { queue, id, state, .. } = &*self.stored;
        f.debug_struct("MemoryNode").field("queue", queue).field("id", id).field("state", state).finish()
    }
}
