use std::sync::Arc;

use latchwork_core::backend::decide::join_obsolete_at;
use latchwork_core::backend::decide::life::Residue;
use latchwork_core::backend::decide::queue::TOMBSTONE;
use latchwork_core::backend::{Join, Joined, LeaseWriter, NodeWriter};
use latchwork_core::{Error, LostReason, Moment, Result};

use super::cleanup;
use super::node::RedisNode;
use super::wait::next_recheck;
use crate::client::Client;
use crate::layout::QueueKeys;
use crate::scripts::{self, Flags, JoinAnswer, ServerTime};
use crate::watch::Attempt;

pub(crate) async fn join(client: &Arc<Client>, join: &Join) -> Result<Joined> {
    let queue = QueueKeys::of(&join.queue)?;
    queue.check(join.claim)?;
    cleanup::before_next_lease(client).await;
    let registration = Registration::new(client, queue, join);
    let notify = client.inbox.address(join.id);
    let script = scripts::join(&registration.attempt.queue, join, client.ttl, notify);
    let answer = match client.run(&script).await {
        Ok((sent, reply)) => match scripts::joined(reply) {
            Ok(answer) => joined(client, &registration.attempt, join, sent, answer),
            // The caller assumes that a join with `Misconfigured` left no node, but a script did run.
            Err(error) => abandon(client, join).await.and(Err(error)),
        },
        Err(error) => Err(error),
    };
    registration.answered(join, &answer);
    answer
}

fn joined(
    client: &Arc<Client>,
    attempt: &Arc<Attempt>,
    join: &Join,
    sent: Moment,
    (answer, flags, _): (JoinAnswer, Flags, ServerTime),
) -> Result<Joined> {
    client.act_on(flags, &attempt.queue);
    let (sequence, behind, recheck) = match answer {
        JoinAnswer::Admitted { sequence, ahead } => (sequence, Some(ahead), Moment::NEVER),
        JoinAnswer::Waiting { sequence, ahead } => (sequence, None, next_recheck(client, ahead)),
        JoinAnswer::Refused => return Ok(Joined::Refused),
        JoinAnswer::Abandoned => return Err(Error::lost(LostReason::Revoked)),
        JoinAnswer::Conflict { stored } => return Err(join.conflict(&stored)),
    };
    let lease = LeaseWriter::new(client.clock.clone(), client.ttl, sent);
    if let Some(reason) = lease.lost() {
        // The reply came after the deadline. The caller abandons the attempt (LEASE-DEADLINE-FROM-SEND).
        return Err(Error::lost(reason));
    }
    client.lease.joined(sent);
    let (state, admitted) = (NodeWriter::new(lease, sequence), behind.is_some());
    if let Some(ahead) = behind {
        state.joined_behind(ahead);
    }
    client.inbox.settle(attempt, state, admitted, recheck);
    if attempt.is_leaving() {
        // The close ran before this node had a state. It removes the node by name.
        return Err(Error::closed());
    }
    let node = Arc::new(RedisNode::new(Arc::clone(client), Arc::clone(attempt), join.claim));
    Ok(if admitted { Joined::Admitted(node) } else { Joined::Waiting(node) })
}

pub(crate) async fn abandon(client: &Arc<Client>, join: &Join) -> Result<()> {
    let queue = QueueKeys::of(&join.queue)?;
    client.change(&queue, &scripts::abandon(&queue, join.id, TOMBSTONE)).await?;
    client.inbox.forget_id(join.id);
    Ok(())
}

/// Registers an attempt before its join is sent (QUEUE-INBOX-BEFORE-JOIN). Without an answer, it stays
/// registered until it is abandoned, so that a close also removes its node.
struct Registration<'a> {
    client: &'a Arc<Client>,
    attempt: Arc<Attempt>,
    residue: Residue,
}

impl<'a> Registration<'a> {
    fn new(client: &'a Arc<Client>, queue: QueueKeys, join: &Join) -> Self {
        let attempt = Attempt::new(queue, join.id, join.repeated);
        client.inbox.register(&attempt);
        Self { client, attempt, residue: Residue::Unknown }
    }

    fn answered(mut self, join: &Join, answer: &Result<Joined>) {
        self.residue = Residue::of(join, answer);
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        match self.residue {
            Residue::Nothing => self.client.forget(&self.attempt),
            Residue::Unknown => {
                let Client { clock, request_timeout, ttl, .. } = &**self.client;
                self.attempt.leave_by(join_obsolete_at(clock.now(), *request_timeout, *ttl));
            }
            Residue::Node => {}
        }
    }
}
