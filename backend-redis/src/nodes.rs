//! Joining, waiting and leaving.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use latchwork_core::contracts::{Entry, Join, Joined, LeaseKeeper, Leave, Node, NodeKeeper, NodeState, Page};
use latchwork_core::decide::{Claim, renewal_period};
use latchwork_core::{Address, Error, ErrorKind, LostReason, Moment, Result, Token};

use crate::client::{Client, TOMBSTONE};
use crate::inbox::Slot;
use crate::layout::Queue;
use crate::scripts::{self, JoinAnswer};

/// Nodes that one listing script reads.
const LISTED_AT_ONCE: usize = 500;

impl Client {
    pub(crate) async fn join(self: &Arc<Self>, join: &Join) -> Result<Joined> {
        let queue = Queue::of(&join.queue)?;
        queue.check(join.claim)?;
        if self.lease().lost() == Some(LostReason::Expired) {
            // A new lease does not wait behind the nodes of the old one (LEASE-REOPEN).
            let given_back = async {
                // One that is under way may have begun before the last were lost.
                for _ in 0..2 {
                    let Some(run) = self.give_back_lost() else { return };
                    run.landed().await;
                }
            };
            if tokio::time::timeout(self.request_timeout, given_back).await.is_err() {
                tracing::debug!("not all that was lost was given back in time yet");
            }
        }
        let registered = Registered::new(self, queue, join);
        let answer = self.join_as(&registered.slot, join).await;
        registered.answered(&answer);
        answer
    }

    async fn join_as(self: &Arc<Self>, slot: &Arc<Slot>, join: &Join) -> Result<Joined> {
        let told_by = (self.inbox.secret(join.id), self.channel.as_str());
        let (sent, reply) = self.run(&scripts::join(&slot.queue, join, self.ttl, told_by, None)).await?;
        let (answer, flags, _) = match scripts::joined(reply) {
            Ok(answer) => answer,
            Err(error) => {
                // No script of ours says so; but it may have made a node, and whoever hears `Misconfigured` leaves none.
                self.abandon(join).await?;
                return Err(error);
            }
        };
        self.heed(flags, &slot.queue);
        let (sequence, admitted, recheck) = match answer {
            JoinAnswer::Admitted { sequence } => (sequence, true, Moment::NEVER),
            JoinAnswer::Waiting { sequence, ahead } => (sequence, false, self.next_look(ahead)),
            JoinAnswer::Refused => return Ok(Joined::Refused),
            JoinAnswer::Abandoned => return Err(Error::lost(LostReason::Revoked)),
            JoinAnswer::Conflict { stored } => return Err(join.conflict(&stored)),
        };
        let lease = LeaseKeeper::new(self.clock.clone(), self.ttl, sent);
        if let Some(reason) = lease.lost() {
            // The reply came too late to leave any time: whoever asked abandons the attempt (RULES A3).
            return Err(Error::lost(reason));
        }
        self.lease.joined(sent);
        self.inbox.settle(slot, NodeKeeper::new(lease, sequence), admitted, recheck);
        if slot.has_left() {
            // The client is being closed, and had no state to end when it looked: it takes the node back by name.
            return Err(Error::closed());
        }
        let node =
            Arc::new(RedisNode { client: Arc::clone(self), slot: Arc::clone(slot), claim: join.claim });
        Ok(if admitted { Joined::Admitted(node) } else { Joined::Waiting(node) })
    }

    pub(crate) async fn abandon(self: &Arc<Self>, join: &Join) -> Result<()> {
        let queue = Queue::of(&join.queue)?;
        let (_, reply) = self.run(&scripts::abandon(&queue, join.id, TOMBSTONE, None)).await?;
        let (_, flags) = scripts::left(reply)?;
        self.inbox.forget_attempt(join.id);
        self.heed(flags, &queue);
        Ok(())
    }

    pub(crate) async fn list(self: &Arc<Self>, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        let queue = Queue::of(queue)?;
        let (mut entries, mut after) = (Vec::new(), page.after);
        while entries.len() < page.most {
            let most = (page.most - entries.len()).min(LISTED_AT_ONCE);
            let (_, reply) = self.run(&scripts::list(&queue, after, most, None)).await.map_err(only_read)?;
            let (flags, part) = scripts::listed(reply)?;
            if part.is_empty() && flags.more() {
                // The page was of nodes that have expired, more than one script drops.
                continue;
            }
            self.heed(flags, &queue);
            let Some(last) = part.last() else { break };
            after = last.sequence;
            entries.extend(part);
        }
        Ok(entries)
    }

    pub(crate) async fn revoke(self: &Arc<Self>, queue: &Address, sequence: u64) -> Result<bool> {
        let queue = Queue::of(queue)?;
        let (_, reply) = self.run(&scripts::revoke(&queue, sequence, None)).await?;
        let (there, flags) = scripts::left(reply)?;
        self.heed(flags, &queue);
        Ok(there)
    }

    pub(crate) async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        let queue = Queue::of(queue)?;
        queue.check(Claim::Permits(1))?;
        let (_, reply) = self.run(&scripts::limit(&queue)).await.map_err(only_read)?;
        scripts::stored_limit(reply)?.known()
    }

    pub(crate) async fn set_limit(self: &Arc<Self>, queue: &Address, limit: u32) -> Result<()> {
        let queue = Queue::of(queue)?;
        queue.check(Claim::Permits(1))?;
        let (_, reply) = self.run(&scripts::set_limit(&queue, limit, None)).await?;
        self.heed(scripts::limit_set(reply)?, &queue);
        Ok(())
    }
}

/// A reading that got no answer can simply be asked again.
fn only_read(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Unknown => Error::new(ErrorKind::Unavailable, "no answer to a reading").because(error),
        _ => error,
    }
}

/// An attempt that is registered before its join is sent (RULES A7). Without an answer it stays registered until it is
/// abandoned, so that a close meanwhile takes it back too.
struct Registered<'a> {
    client: &'a Arc<Client>,
    slot: Arc<Slot>,
    left: Left,
}

/// What a join has left on the server.
enum Left {
    Nothing,
    Unknown,
    Node,
}

impl<'a> Registered<'a> {
    fn new(client: &'a Arc<Client>, queue: Queue, join: &Join) -> Self {
        let slot = Slot::new(queue, join.id, join.repeated);
        client.inbox.register(&slot);
        Self { client, slot, left: Left::Unknown }
    }

    /// As core takes it: what it does not abandon is nothing.
    fn answered(mut self, answer: &Result<Joined>) {
        self.left = match answer {
            Ok(Joined::Admitted(_) | Joined::Waiting(_)) => Left::Node,
            Ok(Joined::Refused) => Left::Nothing,
            Err(error) => match error.kind() {
                ErrorKind::Lost { reason: LostReason::Revoked } => Left::Nothing,
                ErrorKind::Unknown | ErrorKind::Lost { .. } | ErrorKind::Closed => Left::Unknown,
                // This request was refused, or not sent; an earlier one may have made a node.
                _ if self.slot.repeated => Left::Unknown,
                _ => Left::Nothing,
            },
        };
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        match self.left {
            Left::Nothing => self.client.forget(&self.slot),
            // A request in flight may land a request timeout from now; its node then lives a TTL.
            Left::Unknown => {
                let client = self.client;
                self.slot.leave_by(client.clock.now() + client.request_timeout + client.ttl);
            }
            Left::Node => {}
        }
    }
}

/// One node. Whoever drops it without leaving gives up its renewal, so that it runs out.
struct RedisNode {
    client: Arc<Client>,
    slot: Arc<Slot>,
    claim: Claim,
}

impl Drop for RedisNode {
    fn drop(&mut self) {
        self.client.forget(&self.slot);
    }
}

impl fmt::Debug for RedisNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisNode").field("id", &self.slot.id).field("state", &self.slot.state()).finish()
    }
}

#[async_trait]
impl Node for RedisNode {
    fn state(&self) -> &NodeState {
        self.slot.state().expect("a node is made of a slot that its join has settled")
    }

    async fn admitted(&self) -> Result<()> {
        let (slot, state, clock) = (&self.slot, self.state(), &self.client.clock);
        loop {
            let changed = slot.changed().notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            // The own deadline first: an admission of a node that has expired is none (RULES A6, C5).
            let seen = state.state();
            if let Some(reason) = state.lost() {
                return Err(Error::lost(reason));
            }
            if slot.admitted_at().is_some() {
                return Token::new(0, state.sequence()).map(|_| ());
            }
            if let Some(stored) = slot.unfit() {
                return Err(self.claim.outweighs(&stored));
            }
            tokio::select! {
                () = changed => {}
                _ = state.changed(seen) => {}
                () = clock.sleep_until(slot.recheck()) => {
                    // Set first, so that a server that does not answer is not asked in a loop.
                    slot.recheck_at(clock.now() + renewal_period(self.client.ttl));
                    // Together with others: all the readers behind one writer are due at one time.
                    self.client.inbox.look(slot);
                }
            }
        }
    }

    async fn leave(&self) -> Result<Leave> {
        // Out of renewal before the leave is sent, or it would be renewed for ever (RULES A16).
        self.slot.leave();
        let (_, reply) = self.client.run(&crate::client::farewell(&self.slot)).await?;
        let (was_there, flags) = scripts::left(reply)?;
        // Not before: a close meanwhile ends this request, and sends its own.
        self.client.forget(&self.slot);
        self.client.heed(flags, &self.slot.queue);
        Ok(if was_there { Leave::Removed } else { Leave::Absent(self.client.why_gone(self.state().lease())) })
    }

    async fn downgrade(&self) -> Result<()> {
        let (client, slot) = (&self.client, &self.slot);
        slot.queue.check(Claim::Shared)?;
        let call = scripts::downgrade(&slot.queue, slot.id, self.state().sequence(), None);
        let (_, reply) = client.run(&call).await?;
        let (is_shared, flags) = scripts::left(reply)?;
        client.heed(flags, &slot.queue);
        if is_shared {
            return Ok(());
        }
        if !slot.has_left() {
            // Gone, or no holder any more: somebody has changed the queue by hand.
            if let Some(state) = slot.state() {
                state.gone(client.why_gone(state.lease()));
            }
            client.give_back_later(slot);
        }
        Err(Error::lost(self.state().lost().unwrap_or(LostReason::Revoked)))
    }
}
