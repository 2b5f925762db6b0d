use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{CellWrite, CellWritten, Leave, Node, NodeState};
use latchwork_core::{Address, Claim, Error, LostReason, Result};

use super::{cleanup, confirm, wait};
use crate::cells::access;
use crate::client::Client;
use crate::scripts::{self, Call, Holder};
use crate::watch::Attempt;

/// A node that is dropped without a leave is not renewed.
pub(super) struct RedisNode {
    client: Arc<Client>,
    attempt: Arc<Attempt>,
    claim: Claim,
}

impl RedisNode {
    pub(super) fn new(client: Arc<Client>, attempt: Arc<Attempt>, claim: Claim) -> Self {
        Self { client, attempt, claim }
    }

    async fn change(&self, call: Call) -> Result<()> {
        match self.client.change(&self.attempt.queue, &call).await? {
            true => Ok(()),
            false => Err(self.lost()),
        }
    }

    fn lost(&self) -> Error {
        let (client, attempt) = (&self.client, &self.attempt);
        if !attempt.is_leaving() {
            if let Some(state) = attempt.state() {
                state.gone(client.why_gone(&attempt.queue, state.lease()));
            }
            cleanup::later(client, attempt);
        }
        Error::lost(self.state().lost().unwrap_or(LostReason::Revoked))
    }
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.client.forget(&self.attempt);
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, .. } = self;
        f.debug_struct("RedisNode").field("id", &attempt.id).field("state", &attempt.state()).finish()
    }
}

#[async_trait]
impl Node for RedisNode {
    fn state(&self) -> &NodeState {
        self.attempt.state().expect("a node is made of a settled attempt")
    }

    async fn admitted(&self) -> Result<()> {
        wait::admitted(&self.client, &self.attempt, self.state(), self.claim).await
    }

    async fn leave(&self) -> Result<Leave> {
        let (client, attempt) = (&self.client, &self.attempt);
        // A node whose leave was lost must not be renewed for ever (QUEUE-STOP-RENEWAL-BEFORE-LEAVE).
        attempt.begin_leave();
        let was_there = client.change(&attempt.queue, &cleanup::removal(attempt)).await?;
        // A close ends this request, and sends another one.
        client.forget(attempt);
        Ok(if was_there {
            Leave::Removed
        } else {
            Leave::Absent(client.why_gone(&attempt.queue, self.state().lease()))
        })
    }

    async fn downgrade(&self) -> Result<()> {
        let queue = &self.attempt.queue;
        queue.check(Claim::Shared)?;
        self.change(scripts::downgrade(queue, self.attempt.id, self.state().sequence())).await
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        let Attempt { queue, id, .. } = &*self.attempt;
        self.change(scripts::write_data(queue, *id, self.state().sequence(), data)).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let (queue, id, sequence) = (&self.attempt.queue, self.attempt.id, self.state().sequence());
        let holder = Some(Holder { queue, id, sequence });
        access::write(&self.client, cell, write, holder).await?.ok_or_else(|| self.lost())
    }

    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()> {
        confirm::confirm(&self.client, &self.attempt, self.state(), replicas, within).await
    }
}
