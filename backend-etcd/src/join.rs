//! Joining a queue, and taking back a join whose outcome is unknown.
//!
//! *Protocol.* A join is ONE transaction: IF neither the own key nor this attempt's tombstone exists THEN put the own key
//! under the lease, and read who is right ahead (or the queue, where claims differ); ELSE read both. The order of the queue, and the
//! fencing token, is the key's create revision.
//!
//! *Why it is safe.* A revision is given out once, so whoever joins later stands behind. The key's name holds the attempt's id,
//! so that a repeated request makes no second node; a request that lands after its attempt was abandoned meets the tombstone
//! (RULES B9), as does one that lands after its attempt was repeated, admitted and left. Both hang on the lease.
//!
//! A try compares too that the queue is empty, or that nothing was written since it was seen to have room, and that a semaphore
//! has the limit by which that was judged: it is admitted by its own transaction or leaves nothing behind.

use std::sync::Arc;

use latchwork_core::contracts::{Join, Joined, NodeId, Patience, StoredLimit};
use latchwork_core::decide::Claim;
use latchwork_core::decide::chain::Standing;
use latchwork_core::{Error, ErrorKind, LostReason, Result};

use crate::backend::Client;
use crate::cell::Cell;
use crate::error::{Answer, Failure};
use crate::keys::{NodeValue, Queue};
use crate::lease::Session;
use crate::nodes::{EtcdNode, Made, Name};
use crate::terms::{Guard, Order, Outcome, Step};
use crate::view::{self, View, stored_limit};

/// How often a limit or a try is begun anew because others wrote meanwhile. Each time one of them got on.
const ROUNDS: usize = 16;

pub(crate) async fn join(client: &Arc<Client>, join: &Join) -> Result<Joined> {
    let queue = client.layout.queue(&join.queue)?;
    if let (Claim::Permits(weight), Some(limit)) = (join.claim, join.limit.exactly())
        && weight > limit
    {
        return Err(join.conflict(&Some(limit).into()));
    }
    let session = client.leases.alive().await?;
    let name = client.names.lend(&queue.prefix, join.id, join.repeated);
    let attempt = Attempt {
        client,
        join,
        own: queue.node(session.id, name, join.claim),
        name,
        tombstone: client.layout.tombstone(session.id, join.id),
        value: NodeValue::new(join.claim, Arc::clone(&join.label)),
        session: Arc::clone(&session),
        queue,
    };
    let prefix = attempt.queue.prefix.clone();
    let joined = match join.patience {
        Patience::Wait => attempt.enter().await,
        Patience::Try => attempt.try_now().await,
    };
    let joined = match joined {
        // It may have been carried out all the same.
        Err(Failure::Full(error) | Failure::TooLong(error)) => Err(attempt.refused(error).await),
        Err(failure) => {
            if matches!(failure, Failure::LeaseGone) {
                session.gone(&client.driver).await;
            }
            Err(failure.into())
        }
        Ok(joined) => Ok(joined),
    };
    client.names.joined(&prefix, join, &joined);
    joined
}

pub(crate) async fn abandon(client: &Arc<Client>, join: &Join) -> Result<()> {
    let queue = client.layout.queue(&join.queue)?;
    let session = client.leases.current();
    if session.lease.lost().is_some() {
        // Its node and any late one go with the lease, which is given back.
        client.names.settle(join.id);
        return Ok(());
    }
    let own = queue.node(session.id, client.names.of(join.id), join.claim);
    match client.leftovers.bury(session.id, join.id, own.as_bytes()).await {
        Ok(_) => {
            client.names.settle(join.id);
            Ok(())
        }
        Err(Failure::LeaseGone) => {
            client.names.settle(join.id);
            session.gone(&client.driver).await;
            Ok(())
        }
        Err(failure) => Err(failure.into()),
    }
}

struct Attempt<'a> {
    client: &'a Arc<Client>,
    join: &'a Join,
    queue: Queue,
    session: Arc<Session>,
    name: NodeId,
    own: String,
    tombstone: String,
    value: NodeValue,
}

/// The node is made, whatever could not be done next, even where it was refused: whoever asked takes it back. (A conflict is
/// told when it was, and the end of an attempt is one.)
fn after_the_put(failure: Failure) -> Failure {
    match failure {
        Failure::Full(error) | Failure::Other(error)
            if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Lost { .. }) =>
        {
            Failure::Other(Error::new(ErrorKind::Unknown, "joined, but no more is known").because(error))
        }
        other => other,
    }
}

/// One transaction's parts.
struct Parts {
    guards: Vec<Guard>,
    then: Vec<Step>,
    otherwise: Vec<Step>,
}

impl Attempt<'_> {
    /// Takes a place in the queue.
    async fn enter(&self) -> Answer<Joined> {
        let mut cell = Cell::expected(self.join);
        for _ in 0..ROUNDS {
            let mut parts = self.parts(&cell);
            parts.then.push(Step::Range(view::range(&self.queue, self.join.claim, Order::Newest)));
            let outcome = self.client.driver.transact(parts.guards, parts.then, parts.otherwise).await?;
            if outcome.held {
                return self.entered(&outcome).await.map_err(after_the_put);
            }
            if let Some(joined) = self.found_again(&outcome).await? {
                return Ok(joined);
            }
            // Neither key was in the way, so the limit was: only permits come here.
            (cell, _) = Cell::as_read(self.join, outcome.reads.get(2))?;
        }
        Err(self.crowded())
    }

    /// Is admitted at once, or leaves nothing.
    async fn try_now(&self) -> Answer<Joined> {
        let (mut cell, mut seen) = (Cell::expected(self.join), None);
        for _ in 0..ROUNDS {
            let mut parts = self.parts(&cell);
            let prefix = self.queue.prefix.clone();
            parts.guards.push(match seen {
                None => Guard::Empty(prefix),
                Some(revision) => Guard::Unwritten(prefix, revision),
            });
            parts.otherwise.push(Step::Range(view::range(&self.queue, self.join.claim, Order::Newest)));
            let driver = &self.client.driver;
            let outcome = match cell {
                // Who follows the limit must know it before: it decides, even on an empty queue.
                Cell::Stored if self.permits() => {
                    Outcome { held: false, ..driver.read(parts.otherwise).await? }
                }
                _ => driver.transact(parts.guards, parts.then, parts.otherwise).await?,
            };
            if outcome.held {
                let limit = stored_limit(outcome.reads.last()).permits();
                return Ok(self.made(outcome.revision, None, limit, false));
            }
            if let Some(joined) = self.found_again(&outcome).await? {
                return Ok(joined);
            }
            let mut limit = 0;
            if self.permits() {
                (cell, limit) = Cell::as_read(self.join, outcome.reads.get(2))?;
            }
            let last = outcome.reads.last().cloned().unwrap_or_default();
            let view = match View::new(&self.queue, self.join.claim, outcome.revision, &last) {
                Some(view) => view,
                None => view::read(driver, &self.queue, Claim::Shared, Order::Oldest).await?.0,
            };
            if !view.admits(self.join.claim, limit) {
                return Ok(Joined::Refused);
            }
            seen = Some(view.revision);
        }
        Err(self.crowded())
    }

    fn permits(&self) -> bool {
        self.value.is_of_permits()
    }

    /// What every join compares, does, and reads where that fails: own key, tombstone, and a semaphore's limit.
    fn parts(&self, cell: &Cell) -> Parts {
        let (own, tombstone) = (self.own.clone(), self.tombstone.clone());
        let put = Step::Put { key: own.clone(), value: self.value.encode(), lease: self.session.id };
        let mut parts = Parts {
            guards: vec![Guard::Absent(own.clone()), Guard::Absent(tombstone.clone())],
            then: vec![put],
            otherwise: vec![Step::Get(own.into()), Step::Get(tombstone.into())],
        };
        if self.permits() {
            let key = self.queue.limit.clone();
            if let Cell::Missing(limit) = cell {
                let value = limit.to_string().into_bytes();
                // Without a lease: a stored limit stays.
                parts.then.push(Step::Put { key: key.clone(), value, lease: 0 });
            }
            parts.guards.push(cell.guard(key.clone()));
            parts.then.push(Step::Get(key.clone().into()));
            parts.otherwise.push(Step::Get(key.into()));
        }
        parts
    }

    async fn entered(&self, outcome: &Outcome) -> Answer<Joined> {
        let mut reads = outcome.reads.iter();
        let stored = if self.permits() { stored_limit(reads.next()) } else { StoredLimit::Absent };
        let found = reads.next().cloned().unwrap_or_default();
        let limit = if self.permits() {
            match self.join.settle(&stored) {
                Ok(limit) => Some(limit),
                // It followed what it did not know, and can never be admitted.
                Err(conflict) => return Err(self.refused(conflict).await.into()),
            }
        } else {
            None
        };
        let view = match View::new(&self.queue, self.join.claim, outcome.revision, &found) {
            Some(view) => view,
            None => self.look(outcome.revision).await?.0,
        };
        Ok(self.made(outcome.revision, Some(view), limit, false))
    }

    /// Takes back what was made though it is refused: by the name alone, which is nobody else's from now on. A delete
    /// that is not answered may land late, when a repeat of this attempt has made its node: then this one is over, and is
    /// abandoned.
    async fn refused(&self, why: Error) -> Error {
        match self.client.driver.delete(self.own.as_bytes()).await {
            Ok(_) => why,
            Err(failure) => Error::lost(LostReason::Expired).because(Error::from(failure)),
        }
    }

    /// What an earlier request of this attempt left: its node, or the tombstone of its end.
    async fn found_again(&self, outcome: &Outcome) -> Answer<Option<Joined>> {
        let entry = |at: usize| outcome.reads.get(at).and_then(|found| found.entries.first());
        if entry(1).is_some() {
            // The attempt is over. This is a late request of it, whose answer nobody waits for.
            return Err(Error::lost(LostReason::Expired).into());
        }
        let Some(own) = entry(0) else { return Ok(None) };
        // The key names the lease, so it hangs on this one.
        let (view, stored) = self.look(own.created).await?;
        if let StoredLimit::Foreign(_) = stored {
            return Err(self.join.conflict(&stored).into());
        }
        Ok(Some(self.made(own.created, Some(view), stored.permits(), true)))
    }

    async fn look(&self, created: u64) -> Answer<(View, StoredLimit)> {
        view::read(&self.client.driver, &self.queue, self.join.claim, Order::NewestUpTo(created)).await
    }

    /// The node that the server made: by this request, or `again` found.
    fn made(&self, sequence: u64, view: Option<View>, limit: Option<u32>, again: bool) -> Joined {
        let limit = limit.or(self.join.limit.to_store()).unwrap_or(0);
        let standing = view.as_ref().and_then(|view| view.standing(self.own.as_bytes(), limit));
        let repeated = self.join.repeated || again;
        let made = Made {
            session: Arc::clone(&self.session),
            key: self.own.clone(),
            name: if repeated { Name::Repeated(self.join.id) } else { Name::Lent(self.name) },
            value: self.value.clone(),
            sequence,
        };
        let node = EtcdNode::register(self.client, made);
        // A try has no view: its own transaction admitted it, and compared the limit.
        let revision = view.as_ref().map_or(sequence, |view| view.revision);
        // The own lease's deadline counts too (RULES B1), and a removal that was seen already: `admitted` will say so.
        let in_time = node.check_lost().is_ok();
        match standing {
            Some(Standing::Admitted { mark }) if in_time => {
                node.settle(&self.queue, mark, revision, Vec::new())
            }
            None if view.is_none() && in_time => node.settle(&self.queue, false, revision, Vec::new()),
            _ => {
                node.wait_in(self.queue.clone(), limit, view);
                return Joined::Waiting(node);
            }
        }
        Joined::Admitted(node)
    }

    fn crowded(&self) -> Failure {
        Error::new(ErrorKind::Unavailable, format!("others were ahead {ROUNDS} times in a row")).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_behind_the_put_is_no_refusal_of_the_join() {
        let kind = |kind| match after_the_put(Error::new(kind, "then").into()) {
            Failure::Other(error) => error.kind().clone(),
            Failure::LeaseGone | Failure::Full(_) | Failure::TooLong(_) => unreachable!("it was another"),
        };
        for refused in [
            ErrorKind::Unavailable,
            ErrorKind::Misconfigured,
            ErrorKind::Forbidden { what: "a key".to_owned() },
        ] {
            assert_eq!(kind(refused), ErrorKind::Unknown);
        }
        assert_eq!(kind(ErrorKind::Conflict), ErrorKind::Conflict, "its node was taken back");
        let over = ErrorKind::Lost { reason: LostReason::Expired };
        assert_eq!(kind(over.clone()), over, "it is abandoned");
        assert!(matches!(after_the_put(Failure::LeaseGone), Failure::LeaseGone));
    }
}
