//! The common part of both barriers ([`decide::barrier`](crate::decide::barrier)).

use std::sync::Arc;

use super::ask::Ask;
use super::gate_looks::{Aim, Gate, Looked, passage, recheck};
use super::hold::Composite;
use super::queue_handle::AcquiredNode;
use super::watcher::Watcher;
use crate::address::Address;
use crate::contracts::{LeaseState, NodeId, VersionedValue};
use crate::decide::Claim;
use crate::decide::barrier::Place;
use crate::decide::life::joins_anew;
use crate::error::{Error, Result};
use crate::held_node::HeldNode;
use crate::hold::{Ended, HeldBy};
use crate::support::{Backoff, Pauses};
use crate::token::Token;
use futures_util::future::BoxFuture;

impl Gate {
    /// Joins, and waits until the member has passed. If the place is lost before, joins again.
    pub(super) async fn pass(&self, operation: &'static str) -> Result<GatePlace> {
        let mut watch = self.cell.watcher().await?;
        let named = |acquired| self.handle.in_context(operation, acquired);
        // All nodes of this member have the same id.
        let data = Place::data(NodeId::random(), self.parties);
        let request = self.handle.request(&Ask::new(operation, Claim::Shared).saying(&data));
        let request = self.handle.in_context(operation, request)?;
        let clock = self.cell.client.clock();
        let (mut has_waited, mut pauses) = (false, Backoff::new(Pauses::OUTAGE));
        loop {
            let acquired = match named(self.handle.acquire(&request, None).await) {
                // The member waits through the outage.
                Err(error) if has_waited && error.may_pass() => {
                    pauses.wait(&clock).await;
                    continue;
                }
                acquired => acquired?,
            };
            has_waited = true;
            pauses.reset();
            let place = GatePlace { acquired, gate: self.clone() };
            let (own, node) = (place.number(), Arc::clone(&place.held().node));
            // The last member of a passage looks (BARRIER-LAST-LOOKS).
            let looks = node.state().ahead().is_none_or(|ahead| ahead >= self.parties - 1);
            let passed = tokio::select! {
                biased;
                passed = self.until(&mut watch, Aim::Pass(own), looks) => Ok(passed?),
                reason = node.state().until_lost() => Err(reason),
            };
            match passed {
                Ok(()) => return Ok(place),
                Err(reason) if joins_anew(reason) => {
                    place.held().give_back_lost();
                    if self.has_passed_before(own).await? {
                        return Ok(place);
                    }
                }
                Err(reason) => return Err(Error::lost(reason)),
            }
        }
    }

    /// Waits until no later passage counts the lost place of this number. Returns whether the member has
    /// passed before (BARRIER-GONE-BEFORE-AGAIN).
    async fn has_passed_before(&self, own: u64) -> Result<bool> {
        let (clock, mut pauses) = (self.cell.client.clock(), Backoff::new(Pauses::OUTAGE));
        loop {
            match self.settle(own).await {
                Ok(Some(has_passed)) => return Ok(has_passed),
                Err(error) if !error.may_pass() => return Err(error),
                Ok(None) | Err(_) => pauses.wait(&clock).await,
            }
        }
    }

    /// Waits until all members that passed with this one have left.
    pub(super) async fn until_left(&self, number: u64) -> Result<()> {
        let mut watch = self.cell.watcher().await?;
        self.until(&mut watch, Aim::Leave(number), true).await
    }

    /// Waits until the cell reaches the aim. Tries to advance the cell if it `looks`, and in re-checks. Fails
    /// with `Unavailable` if the server has refused that for one TTL.
    async fn until(
        &self,
        watch: &mut Watcher<Option<VersionedValue>>,
        aim: Aim,
        mut looks: bool,
    ) -> Result<()> {
        let client = self.cell.client.clone();
        let (clock, mut pauses) = (client.clock(), Backoff::new(Pauses::OUTAGE));
        let mut refused_since = None;
        loop {
            let found = watch.glance()?.as_ref().map(passage).transpose()?;
            if self.has_reached(aim, found) {
                return Ok(());
            }
            let mut next = recheck(self.parties, client.lease().ttl());
            if looks || self.disagrees(aim, found) {
                let looked = self.look(aim, looks).await;
                match &looked {
                    Ok(Looked::Reached) => return Ok(()),
                    Ok(Looked::Nothing) => pauses.reset(),
                    Ok(Looked::Again) | Err(_) => next = pauses.next(),
                }
                match looked {
                    Err(error) if !error.may_pass() => return Err(error),
                    // Not an outage: the server renews leases but refuses writes, for example because it is
                    // full.
                    Err(error) if client.lease().state() == LeaseState::Live => {
                        let since = *refused_since.get_or_insert(clock.now());
                        if clock.now().since(since) >= client.lease().ttl() {
                            return Err(error);
                        }
                    }
                    _ => refused_since = None,
                }
            }
            let look_at = clock.now() + next;
            looks = tokio::select! {
                news = watch.news() => { news?; false }
                () = clock.sleep_until(look_at) => true,
            };
        }
    }
}

/// A member's place. A drop gives it back in the background; the last drop deletes the cell.
pub(super) struct GatePlace {
    // `None` only during the drop.
    acquired: Option<AcquiredNode>,
    gate: Gate,
}

impl GatePlace {
    pub(super) fn held(&self) -> &HeldNode {
        &self.acquired.as_ref().expect("there until it is dropped").held
    }

    pub(super) fn number(&self) -> u64 {
        self.held().token().sequence()
    }
}

impl Composite for GatePlace {
    fn key(&self) -> &str {
        self.gate.handle.queue.name()
    }

    fn address(&self) -> &Address {
        &self.gate.handle.queue
    }

    fn coordinator(&self) -> Option<&str> {
        self.gate.cell.client.name.as_deref()
    }

    fn held_by(&self) -> HeldBy<'_> {
        HeldBy::All(std::slice::from_ref(&self.held().tenure))
    }

    fn places(&self) -> Vec<Option<Token>> {
        vec![Some(self.held().token())]
    }

    fn release(&self) -> BoxFuture<'_, Result<Ended>> {
        Box::pin(self.held().release())
    }

    fn leave(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let left = async {
                // A member that lost its lease has left already.
                let _how = self.held().release().await?;
                self.gate.until_left(self.number()).await
            };
            self.gate.cell.in_context("leave", left.await)
        })
    }
}

impl Drop for GatePlace {
    fn drop(&mut self) {
        let gate = self.gate.clone();
        self.gate.handle.leave_and_then(self.acquired.take(), async move { gate.tidy().await });
    }
}
