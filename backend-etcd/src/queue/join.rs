//! Joining a queue.
//!
//! *Protocol.* A join is ONE transaction: IF neither the own key nor this attempt's tombstone exists THEN put
//! the own key on the lease, and read the nodes immediately ahead (or the whole queue, if claims differ);
//! ELSE read both keys. The create revision of the key is the node's place and its fencing token.
//!
//! *Why it is safe.* The server never gives a revision twice. The key contains the attempt's id, so a
//! repeated request creates no second node. A request that arrives after the end of its attempt finds the
//! tombstone, on the same lease (CHAIN-TOMBSTONE-FOR-UNKNOWN-JOIN).
//!
//! A try also compares that the queue is empty, or was not written since a listing showed room, and that a
//! semaphore still has that limit. So its transaction admits it, or it leaves no key.

use std::sync::Arc;

use latchwork_core::backend::decide::chain::Standing;
use latchwork_core::backend::{Join, Joined, Patience, StoredLimit};
use latchwork_core::{Claim, Error, ErrorKind, LostReason, Result};

use super::attempt::Attempt;
use super::context::NodeContext;
use super::data;
use super::limit::{LimitCompare, stored_limit};
use super::list::{self, Listing};
use super::node::{EtcdNode, NodeName};
use crate::driver::{Compare, Op, Order, Txn, TxnResult};
use crate::error::{Answer, Failure};
use crate::layout::{NodeData, Queue};

const ROUNDS: usize = 16;

pub(crate) async fn join(context: &Arc<NodeContext>, queue: Queue, join: &Join) -> Result<Joined> {
    if let (Claim::Permits(weight), Some(limit)) = (join.claim, join.limit.exactly())
        && weight > limit
    {
        return Err(join.conflict(&Some(limit).into()));
    }
    let session = context.leases.alive().await?;
    let name = context.names.lend(&queue.prefix, join.id, join.repeated);
    let attempt = Attempt {
        context,
        join,
        own: queue.node(session.id, name, join.claim),
        name,
        tombstone: context.tombstones.key(session.id, join.id),
        data: NodeData::new(join.claim, Arc::clone(&join.label)),
        session: Arc::clone(&session),
        queue,
    };
    let prefix = attempt.queue.prefix.clone();
    let joined = match join.patience {
        Patience::Wait => attempt.enter().await,
        Patience::Try => attempt.try_now().await,
    };
    let joined = match joined {
        // The server may have carried it out.
        Err(Failure::Full(error) | Failure::TooLong(error)) => Err(attempt.refused(error).await),
        Err(failure) => {
            if matches!(failure, Failure::LeaseGone) {
                session.gone(&context.driver).await;
            }
            Err(failure.into())
        }
        Ok(joined) => Ok(joined),
    };
    context.names.joined(&prefix, join, &joined);
    joined
}

/// The node was created, so a later failure, even a refusal, leaves the outcome of the join unknown.
/// Exceptions: after a conflict the node was removed, and the end of an attempt is final.
fn after_the_put(failure: Failure) -> Failure {
    match failure {
        Failure::Full(error) | Failure::Other(error)
            if !matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Lost(_)) =>
        {
            Failure::Other(
                Error::new(
                    ErrorKind::OutcomeUnknown,
                    "the node was created, but a later request of the join failed",
                )
                .because(error),
            )
        }
        other => other,
    }
}

impl Attempt<'_> {
    async fn enter(&self) -> Answer<Joined> {
        let mut limit = LimitCompare::expected(self.join);
        for _ in 0..ROUNDS {
            let mut txn = self.txn(&limit);
            txn.then.push(Op::Range(match self.queue.kind.admits_all() {
                true => list::count(&self.queue),
                false => list::range(&self.queue, self.join.claim, Order::Newest),
            }));
            let result = self.context.driver.txn(txn).await?;
            if result.succeeded {
                return self.entered(&result).await.map_err(after_the_put);
            }
            if let Some(joined) = self.found_again(&result).await? {
                return Ok(joined);
            }
            // The limit differs: only permits come here.
            (limit, _) = LimitCompare::as_read(self.join, result.reads.get(2))?;
        }
        Err(self.contended())
    }

    async fn try_now(&self) -> Answer<Joined> {
        let (mut compare, mut listed) = (LimitCompare::expected(self.join), None);
        for _ in 0..ROUNDS {
            let mut txn = self.txn(&compare);
            let prefix = self.queue.prefix.clone();
            txn.compares.push(match listed {
                None => Compare::Empty(prefix),
                Some(revision) => Compare::Unwritten(prefix, revision),
            });
            txn.or_else.push(Op::Range(list::range(&self.queue, self.join.claim, Order::Newest)));
            let driver = &self.context.driver;
            let result = match compare {
                // The limit decides even on an empty queue, so a try with the stored limit reads it first.
                LimitCompare::Stored if self.permits() => {
                    TxnResult { succeeded: false, ..driver.read(txn.or_else).await? }
                }
                _ => driver.txn(txn).await?,
            };
            if result.succeeded {
                let limit = stored_limit(result.reads.last()).permits();
                return Ok(self.joined(result.revision, None, limit, false, None));
            }
            if let Some(joined) = self.found_again(&result).await? {
                return Ok(joined);
            }
            let mut limit = 0;
            if self.permits() {
                (compare, limit) = LimitCompare::as_read(self.join, result.reads.get(2))?;
            }
            let last = result.reads.last().cloned().unwrap_or_default();
            let listing = match Listing::new(&self.queue, self.join.claim, result.revision, &last) {
                Some(listing) => listing,
                None => list::read(driver, &self.queue, Claim::Shared, Order::Oldest).await?.0,
            };
            if !listing.admits(self.join.claim, limit) {
                return Ok(Joined::Refused);
            }
            listed = Some(listing.revision);
        }
        Err(self.contended())
    }

    /// The common part of all joins: the own key, the tombstone, a semaphore's limit.
    fn txn(&self, limit: &LimitCompare) -> Txn {
        let (own, tombstone) = (self.own.clone(), self.tombstone.clone());
        let place = self.place();
        let value = place.value(&self.data, &self.join.data);
        let put = Op::Put { key: own.clone(), value, lease: self.session.id };
        let mut txn = Txn {
            compares: vec![Compare::Absent(own.clone()), Compare::Absent(tombstone.clone())],
            then: vec![put],
            or_else: vec![Op::Get(own.into()), Op::Get(tombstone.into())],
        };
        txn.then.extend(data::joined(place, &self.own, &self.join.data, self.session.id));
        if self.permits() {
            let key = self.queue.limit.clone();
            if let LimitCompare::Absent(limit) = limit {
                let value = limit.to_string().into_bytes();
                txn.then.push(Op::Put { key: key.clone(), value, lease: 0 });
            }
            txn.compares.push(limit.compare(key.clone()));
            txn.then.push(Op::Get(key.clone().into()));
            txn.or_else.push(Op::Get(key.into()));
        }
        txn
    }

    async fn entered(&self, result: &TxnResult) -> Answer<Joined> {
        let mut reads = result.reads.iter();
        let stored = if self.permits() { stored_limit(reads.next()) } else { StoredLimit::Absent };
        let found = reads.next().cloned().unwrap_or_default();
        if self.queue.kind.admits_all() {
            let ahead = usize::try_from(found.count).unwrap_or(usize::MAX).saturating_sub(1);
            return Ok(self.joined(result.revision, None, None, false, Some(ahead)));
        }
        let limit = if self.permits() {
            match self.join.settle(&stored) {
                Ok(limit) => Some(limit),
                Err(conflict) => return Err(self.refused(conflict).await.into()),
            }
        } else {
            None
        };
        let listing = match Listing::new(&self.queue, self.join.claim, result.revision, &found) {
            Some(listing) => listing,
            None => self.list(result.revision).await?.0,
        };
        Ok(self.joined(result.revision, Some(listing), limit, false, None))
    }

    /// Removes the node of a refused join by its name alone, which no other node will have. A delete without
    /// an answer may hit the node of a repetition, so core then abandons the attempt.
    async fn refused(&self, why: Error) -> Error {
        let keys = data::keys(self.own.as_bytes(), data::is_beside(self.place(), &self.join.data));
        match self.context.driver.delete_each(&keys).await {
            Ok(_) => why,
            Err(failure) => Error::lost(LostReason::Expired).because(Error::from(failure)),
        }
    }

    /// The result of an earlier request of this attempt: its node, or the tombstone of its end.
    async fn found_again(&self, result: &TxnResult) -> Answer<Option<Joined>> {
        let stored = |at: usize| result.reads.get(at).and_then(|found| found.keys.first());
        if stored(1).is_some() {
            // A late request of an ended attempt. No caller waits for the answer.
            return Err(Error::lost(LostReason::Expired).into());
        }
        let Some(own) = stored(0) else { return Ok(None) };
        let (listing, stored) = self.list(own.created).await?;
        if let StoredLimit::Foreign(_) = stored {
            return Err(self.join.conflict(&stored).into());
        }
        let ahead = if self.queue.kind.admits_all() { listing.position(self.own.as_bytes()) } else { None };
        Ok(Some(self.joined(own.created, Some(listing), stored.permits(), true, ahead)))
    }

    async fn list(&self, created: u64) -> Answer<(Listing, StoredLimit)> {
        list::read(&self.context.driver, &self.queue, self.join.claim, Order::NewestUpTo(created)).await
    }

    /// `again`: an earlier request created the node.
    fn joined(
        &self,
        sequence: u64,
        listing: Option<Listing>,
        limit: Option<u32>,
        again: bool,
        ahead: Option<usize>,
    ) -> Joined {
        let limit = limit.or(self.join.limit.to_store()).unwrap_or(0);
        let standing = listing.as_ref().and_then(|listing| listing.standing(self.own.as_bytes(), limit));
        let repeated = self.join.repeated || again;
        let name = if repeated { NodeName::Repeated(self.join.id) } else { NodeName::Lent(self.name) };
        let node = EtcdNode::register(self, name, sequence);
        if let Some(ahead) = ahead {
            node.own.state.joined_behind(ahead);
        }
        // A try has no listing: its transaction has admitted it, and compared the limit.
        let revision = listing.as_ref().map_or(sequence, |listing| listing.revision);
        // A node whose deadline has passed is not admitted (CHAIN-OWN-NODE-AND-DEADLINE).
        let in_time = node.check_lost().is_ok();
        match standing {
            Some(Standing::Admitted { mark }) if in_time => {
                node.admit(&self.queue, mark, revision, Vec::new());
            }
            None if listing.is_none() && in_time => node.admit(&self.queue, false, revision, Vec::new()),
            _ => {
                node.wait_in(self.queue.clone(), limit, listing);
                return Joined::Waiting(node);
            }
        }
        Joined::Admitted(node)
    }

    fn contended(&self) -> Failure {
        Error::new(
            ErrorKind::Unavailable,
            format!("other clients changed the queue first, {ROUNDS} times in a row: try again"),
        )
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusal_after_the_put_reports_an_unknown_outcome() {
        let kind = |kind| match after_the_put(Error::new(kind, "then").into()) {
            Failure::Other(error) => error.kind(),
            Failure::LeaseGone | Failure::Full(_) | Failure::TooLong(_) => {
                unreachable!("another kind of failure")
            }
        };
        for refused in [ErrorKind::Unavailable, ErrorKind::Misconfigured, ErrorKind::Forbidden] {
            assert_eq!(kind(refused), ErrorKind::OutcomeUnknown);
        }
        assert_eq!(kind(ErrorKind::Conflict), ErrorKind::Conflict, "the node of a conflict was removed");
        let over = ErrorKind::Lost(LostReason::Expired);
        assert_eq!(kind(over), over, "the attempt has ended");
        assert!(matches!(after_the_put(Failure::LeaseGone), Failure::LeaseGone));
    }
}
