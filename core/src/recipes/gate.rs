//! The common part of both barriers: a queue that admits every node, and a cell with the place up to which
//! members have passed. [`decide::barrier`](crate::decide::barrier) has the protocol and the argument.

use std::sync::Arc;

use super::ask::Ask;
use super::cell_handle::CellHandle;
use super::hold::Composite;
use super::queue_handle::{AcquiredNode, QueueHandle};
use super::watcher::Watcher;
use crate::address::Address;
use crate::contracts::{CellLife, CellWrite, CellWritten, Expected, LeaseState, VersionedValue};
use crate::decide::barrier::{NoPassage, Passage};
use crate::decide::life::joins_anew;
use crate::decide::{Claim, renewal_period};
use crate::error::{Error, ErrorKind, Result};
use crate::held_node::HeldNode;
use crate::hold::{Ended, HeldBy};
use crate::support::{Backoff, Pauses};
use crate::token::Token;
use futures_util::future::BoxFuture;

/// How many members one page has.
const PAGE: usize = 500;

/// The wanted change of the passage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GateStep {
    /// The next members pass.
    Open,
    /// All members that have passed have left.
    Empty,
}

/// The gate of one barrier's handle.
#[derive(Clone)]
pub(super) struct Gate {
    pub(super) handle: Arc<QueueHandle>,
    pub(super) cell: CellHandle,
    pub(super) parties: usize,
    /// Whether all members must leave before the next ones enter.
    pub(super) emptied: bool,
}

impl Gate {
    pub(super) fn new(handle: QueueHandle, cell: CellHandle, parties: u32, emptied: bool) -> Result<Self> {
        if parties == 0 {
            return Err(Error::invalid("parties", "must not be zero").on(handle.queue.name()));
        }
        let parties = usize::try_from(parties).expect("an address space of 32 bits at least");
        Ok(Self { handle: Arc::new(handle), cell, parties, emptied })
    }

    /// Joins, and waits until the member has passed. If the place is lost during the wait, joins again.
    ///
    /// # Cancel safety
    /// A dropped call leaves no member.
    pub(super) async fn pass(&self, operation: &'static str) -> Result<GatePlace> {
        let mut watch = self.cell.watcher().await?;
        let named = |acquired| self.handle.in_context(operation, acquired);
        let request = self.handle.request(&Ask::new(operation, Claim::Shared));
        let request = self.handle.in_context(operation, request)?;
        let clock = self.cell.client.clock();
        let (mut has_waited, mut pauses) = (false, Backoff::new(Pauses::OUTAGE));
        loop {
            let acquired = match named(self.handle.acquire(&request, None).await) {
                // An outage: the member waits until its end.
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
            let has_passed = |passage: Option<Passage>| passage.is_some_and(|passage| passage.passed >= own);
            let passed = tokio::select! {
                biased;
                passed = self.until(&mut watch, has_passed, GateStep::Open) => Ok(passed?),
                reason = node.state().until_lost() => Err(reason),
            };
            match passed {
                Ok(()) => return Ok(place),
                Err(reason) if joins_anew(reason) => {}
                Err(reason) => return Err(Error::lost(reason)),
            }
        }
    }

    /// Waits until all members that passed with the member of this number have left.
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    pub(super) async fn until_left(&self, number: u64) -> Result<()> {
        let mut watch = self.cell.watcher().await?;
        // The last member that leaves deletes the cell.
        let have_left = |passage: Option<Passage>| passage.is_none_or(|passage| passage.left >= number);
        self.until(&mut watch, have_left, GateStep::Empty).await
    }

    /// Waits until the passage satisfies `done`. Tries to advance it at each change and every third of a TTL.
    ///
    /// # Errors
    /// `Unavailable`: the server has refused that for one TTL.
    async fn until(
        &self,
        watch: &mut Watcher<Option<VersionedValue>>,
        done: impl Fn(Option<Passage>) -> bool,
        step: GateStep,
    ) -> Result<()> {
        let client = self.cell.client.clone();
        let clock = client.clock();
        let mut refused_since = None;
        loop {
            watch.glance()?;
            match self.bring_on(&done, step).await {
                Ok(true) => return Ok(()),
                Err(error) if !error.may_pass() => return Err(error),
                // Not an outage: the server renews leases, and refuses writes, for example because it is full.
                Err(error) if client.lease().state() == LeaseState::Live => {
                    let since = *refused_since.get_or_insert(clock.now());
                    if clock.now().since(since) >= client.lease().ttl() {
                        return Err(error);
                    }
                }
                Ok(false) | Err(_) => refused_since = None,
            }
            let look_at = clock.now() + renewal_period(client.lease().ttl());
            tokio::select! {
                news = watch.news() => news?,
                () = clock.sleep_until(look_at) => {}
            }
        }
    }

    /// Takes steps until the passage satisfies `done` or no step is possible. Returns whether it does.
    async fn bring_on(&self, done: &impl Fn(Option<Passage>) -> bool, step: GateStep) -> Result<bool> {
        let mut seen = self.cell.read().await?;
        loop {
            let passage = seen.as_ref().map(passage).transpose()?;
            if done(passage) {
                return Ok(true);
            }
            let Some(next) = self.step(step, passage.unwrap_or_default()).await? else { return Ok(false) };
            let expected = seen.map_or(Expected::Absent, |cell| Expected::Version(cell.version));
            let value = next.to_string().into_bytes().into();
            seen = match self
                .cell
                .write(&CellWrite { expected, value: Some(value), life: CellLife::Stays })
                .await?
            {
                CellWritten::Refused(cell) => cell,
                CellWritten::Written(_) | CellWritten::Deleted { .. } => self.cell.read().await?,
            };
        }
    }

    /// Returns the next passage, if a step is possible.
    async fn step(&self, step: GateStep, passage: Passage) -> Result<Option<Passage>> {
        if step == GateStep::Empty || self.emptied {
            // The head of the queue is enough: members that have passed are before all others.
            let emptied = passage.emptied(self.page(0, 1).await?);
            if step == GateStep::Empty || emptied.is_some() {
                return Ok(emptied);
            }
        }
        Ok(passage.next(self.parties, self.emptied, self.standing(passage.passed).await?))
    }

    /// Returns the members after a sequence number, up to the number that may pass.
    async fn standing(&self, passed: u64) -> Result<Vec<u64>> {
        let mut standing = Vec::new();
        while standing.len() < self.parties {
            let after = standing.last().copied().unwrap_or(passed);
            let page = self.page(after, PAGE).await?;
            if page.is_empty() {
                break;
            }
            standing.extend(page);
        }
        Ok(standing)
    }

    async fn page(&self, after: u64, most: usize) -> Result<Vec<u64>> {
        Ok(self.handle.list(after, most).await?.iter().map(|entry| entry.sequence).collect())
    }

    /// Deletes the cell after the last member has left. This is safe: a later member has a number above all
    /// that have passed, and starts again. After an error the next member deletes it.
    async fn tidy(&self) {
        let tidied = async {
            let Some(cell) = self.cell.read().await? else { return Ok(()) };
            if self.page(0, 1).await?.is_empty() {
                self.cell.write(&CellWrite::deletion(Expected::Version(cell.version))).await?;
            }
            Ok::<_, Error>(())
        };
        if let Err(error) = tidied.await {
            tracing::debug!(%error, "the cell of a barrier could not be deleted; it remains until the barrier is used again");
        }
    }
}

fn passage(cell: &VersionedValue) -> Result<Passage> {
    let text = std::str::from_utf8(&cell.value).map_err(|_| NoPassage);
    text.and_then(str::parse).map_err(|NoPassage| {
        Error::new(ErrorKind::Conflict, "the stored value is not a barrier: use another key")
    })
}

/// A member's place. A drop gives it back in the background, and deletes the cell with the last place.
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
