//! One node, as core holds it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::backend::{CellWrite, CellWritten, Leave, Node, NodeState};
use latchwork_core::{Address, Claim, Error, LostReason, Result};

use super::{cleanup, confirm, wait};
use crate::cells::access;
use crate::client::Client;
use crate::scripts::{self, Holder, WriteAnswer};
use crate::watch::Attempt;

/// Dropped without a leave, the node is renewed no more and runs out.
pub(super) struct RedisNode {
    client: Arc<Client>,
    attempt: Arc<Attempt>,
    claim: Claim,
}

impl RedisNode {
    /// The join has settled `attempt`.
    pub(super) fn new(client: Arc<Client>, attempt: Arc<Attempt>, claim: Claim) -> Self {
        Self { client, attempt, claim }
    }

    /// The server has answered that the node is gone. Answers the error for the caller.
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
        // Before the leave is sent, or a lost leave's node would be renewed for ever
        // (QUEUE-STOP-RENEWAL-BEFORE-LEAVE).
        attempt.begin_leave();
        let (_, reply) = client.run(&cleanup::removal(attempt)).await?;
        let (was_there, flags) = scripts::was_there(reply)?;
        // Not before the answer: a close meanwhile ends this request, and sends its own.
        client.forget(attempt);
        client.act_on(flags, &attempt.queue);
        Ok(if was_there {
            Leave::Removed
        } else {
            Leave::Absent(client.why_gone(&attempt.queue, self.state().lease()))
        })
    }

    async fn downgrade(&self) -> Result<()> {
        let (client, attempt) = (&self.client, &self.attempt);
        attempt.queue.check(Claim::Shared)?;
        let call = scripts::downgrade(&attempt.queue, attempt.id, self.state().sequence(), None);
        let (_, reply) = client.run(&call).await?;
        let (is_shared, flags) = scripts::was_there(reply)?;
        client.act_on(flags, &attempt.queue);
        // Else it is gone, or no holder any more: something else has changed the queue.
        if is_shared { Ok(()) } else { Err(self.lost()) }
    }

    async fn write_data(&self, data: &Arc<[u8]>) -> Result<()> {
        let (client, attempt) = (&self.client, &self.attempt);
        let call = scripts::write_data(&attempt.queue, attempt.id, self.state().sequence(), data, None);
        let (_, reply) = client.run(&call).await?;
        let (stands, flags) = scripts::was_there(reply)?;
        client.act_on(flags, &attempt.queue);
        if stands { Ok(()) } else { Err(self.lost()) }
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        let (queue, id, sequence) = (&self.attempt.queue, self.attempt.id, self.state().sequence());
        match access::write_held(&self.client, cell, write, Holder { queue, id, sequence }).await? {
            WriteAnswer::Done(written) => Ok(written),
            WriteAnswer::Gone => Err(self.lost()),
        }
    }

    async fn confirm(&self, replicas: u32, within: Duration) -> Result<()> {
        confirm::confirm(&self.client, &self.attempt, self.state(), replicas, within).await
    }
}
