//! What all recipes over a queue share: the options of an acquisition, and the way from a request to a hold.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::verb::Ask;
use crate::address::Address;
use crate::attempt::Request;
use crate::clock::Moment;
use crate::contracts::{AskedLimit, Entry, Page, Patience};
use crate::coordinator::Coordinator;
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::holding::Holding;
use crate::label;
use crate::reentrancy::{Bounds, Mode, Owner, Share};

/// How to acquire. Lengths of time are counted by the client's clock, which goes on while the machine sleeps; zero is refused.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Acquire {
    within: Option<Duration>,
    label: Option<Arc<str>>,
    max_hold: Option<Duration>,
    at_least: Option<Duration>,
    fail_fast: bool,
}

impl Acquire {
    /// Without a deadline, with the coordinator's label, without a fixed end.
    pub fn new() -> Self {
        Self::default()
    }

    /// At most so long in all. Zero is refused: a try is another call.
    pub fn within(mut self, deadline: Duration) -> Self {
        self.within = Some(deadline);
        self
    }

    /// Another label than the coordinator's in listings, up to 4 KiB. People read it on a terminal: one with a control character, or
    /// with a character that changes the direction of the text around it, is refused.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The hold ends after `length` whatever happens, so that a hung task does not hold for ever
    /// (LEASE-FIXED). It counts from the send of an uncontended join, else from when its owner learns of the admission: an
    /// acquisition that nobody polls is not bounded by it. One that is shorter than the way to the server and back is over
    /// before it begins, and the acquisition answers `Lost` (`MaxHold`).
    ///
    /// At its end the hold is lost (`MaxHold`), and one [margin](crate::contracts::Lease::margin) later its node is left, whether
    /// the guard is kept or dropped: what the holder was doing is over when the next comes in, as at an expiry. A
    /// [`release`](crate::Hold::release) behind the end leaves the node at once. Work that was spawned is not stopped by
    /// it: give it [`lost`](crate::Hold::lost).
    pub fn max_hold(mut self, length: Duration) -> Self {
        self.max_hold = Some(length);
        self
    }

    /// The hold is not given back before `length` after its admission, however soon it is released or dropped: a job of a few
    /// milliseconds on one host is not run again by a host whose clock is a second late. `release()` answers at once, and
    /// the node departs when the time is over; [`close`](Coordinator::close) waits for that. So long no reader comes in
    /// either behind an owner's writer that is released while the owner reads on; a
    /// [`downgrade`](super::WriteGuard::downgrade) lets them in at once. Where [`max_hold`](Acquire::max_hold) ends sooner, which
    /// counts from the send of the join, that goes before.
    ///
    /// It binds this client as long as its lease lasts. When the process ends before, the server frees the node
    /// within a TTL, or at once where the client was closed by
    /// [`close_now`](Coordinator::close_now) and the backend's
    /// [`minimum_outlives_close`](crate::Capabilities::minimum_outlives_close) is false.
    pub fn hold_at_least(mut self, length: Duration) -> Self {
        self.at_least = Some(length);
        self
    }

    /// Answers `Unavailable` as soon as the coordinator does not answer, instead of waiting until it does: at once where the lease is
    /// [`Suspended`](crate::contracts::LeaseState::Suspended), as soon as it is so while it waits in the queue, and at the first request
    /// that fails. For a service that has another answer ready (503) and does not keep its callers waiting in an outage. A
    /// re-entry waits for nothing, and is let in.
    pub fn fail_fast(mut self) -> Self {
        self.fail_fast = true;
        self
    }

    /// Refuses what can be refused before anything is asked.
    fn check(&self) -> Result<()> {
        let lengths =
            [("deadline", self.within), ("max_hold", self.max_hold), ("hold_at_least", self.at_least)];
        for (name, length) in lengths {
            if length.is_some_and(|length| length.is_zero()) {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        if let (Some(least), Some(most)) = (self.at_least, self.max_hold)
            && least > most
        {
            return Err(Error::invalid("hold_at_least", format!("is {least:?}, above max_hold, {most:?}")));
        }
        self.label.as_deref().map_or(Ok(()), label::check)
    }

    /// The instant of its total deadline; for a try, of its answer.
    fn deadline(&self, coordinator: &Coordinator, patience: Patience) -> Moment {
        let within = match (patience, self.within) {
            (Patience::Try, _) => coordinator.request_timeout(),
            (Patience::Wait, Some(within)) => within,
            (Patience::Wait, None) => return Moment::NEVER,
        };
        // One without an end is a deadline too, for which an unreachable server is waited for.
        (coordinator.clock().now() + within).min(Moment::from_nanos(Moment::NEVER.as_nanos() - 1))
    }

    fn request(self, line: &Line, claim: Claim, limit: AskedLimit, patience: Patience) -> Result<Request> {
        let Line { coordinator, queue, .. } = line;
        self.check()?;
        let deadline = self.deadline(coordinator, patience);
        let label = self.label.unwrap_or_else(|| Arc::clone(coordinator.default_label()));
        Ok(Request {
            queue: queue.clone(),
            claim,
            limit,
            label,
            patience,
            deadline,
            request_timeout: coordinator.request_timeout(),
            fail_fast: self.fail_fast,
            max_hold: self.max_hold,
            on_queue: None,
        })
    }
}

impl Ask<'_> {
    /// The options; the label is the owner's unless another is given.
    fn options(self) -> Acquire {
        let mut options = self.options;
        if let Some(owner) = self.owner {
            options.label.get_or_insert_with(|| Arc::clone(owner.label()));
        }
        options
    }
}

/// The queue of one recipe's handle.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) coordinator: Coordinator,
    pub(super) queue: Address,
    /// The recipe's name in traces.
    pub(super) recipe: &'static str,
}

/// What was acquired.
pub(super) struct Acquired {
    pub(super) holding: Holding,
    pub(super) waited: Duration,
}

impl Line {
    /// Joins, waits if it may, and makes a hold that stands alone. `None`: a try was refused.
    pub(super) async fn alone(
        &self,
        ask: Ask<'_>,
        claim: Claim,
        limit: AskedLimit,
    ) -> Result<Option<Acquired>> {
        let Ask { operation, patience, .. } = ask;
        let options = ask.options();
        let at_least = options.at_least;
        let told = |error: Error| error.in_operation(operation).on(self.queue.name());
        let request = options.request(self, claim, limit, patience).map_err(told)?;
        self.carry_out(&request, at_least).await.map_err(told)
    }

    async fn carry_out(&self, request: &Request, at_least: Option<Duration>) -> Result<Option<Acquired>> {
        let (recipe, key) = (self.recipe, self.queue.name());
        let begun = self.coordinator.clock().now();
        let admitted = self
            .coordinator
            .acquire(request)
            .instrument(tracing::debug_span!("latchwork.wait", recipe, key))
            .await
            .inspect_err(|error| {
                let waited = self.coordinator.clock().now().since(begun);
                tracing::debug!(recipe, key, ?waited, %error, "not acquired");
            })?;
        Ok(admitted.map(|admitted| {
            let holding = Holding::new(self.coordinator.clone(), self.queue.clone(), admitted.node, at_least);
            let (token, waited) = (holding.token(), admitted.waited);
            tracing::debug!(recipe, key, %token, ?waited, "acquired");
            let lost = tracing::field::Empty;
            holding.trace(tracing::debug_span!("latchwork.hold", recipe, key, %token, ?waited, lost));
            Acquired { holding, waited: admitted.waited }
        }))
    }

    /// Enters again where `owner` holds, else joins as [`alone`](Line::alone). `None`: a try was refused.
    pub(super) async fn enter(&self, ask: Ask<'_>, owner: &Owner, mode: Mode) -> Result<Option<Share>> {
        let Ask { operation, patience, .. } = ask;
        let told = |error: Error| error.in_operation(operation).on(self.queue.name());
        let options = Ask { owner: Some(owner), ..ask }.options();
        let at_least = options.at_least;
        // Made of options that are refused for a re-entry too; its deadline is that of all that follows.
        let request = options.request(self, mode.claim(), AskedLimit::Stored, patience).map_err(told)?;
        let acquire = |on_queue| {
            let (line, request) = (self.clone(), Request { on_queue: Some(on_queue), ..request.clone() });
            async move { Ok(line.carry_out(&request, at_least).await?.map(|acquired| acquired.holding)) }
        };
        let key = (owner.clone(), self.queue.clone());
        let bounds = Bounds { deadline: request.deadline, patience, fail_fast: request.fail_fast };
        let entered = Share::enter(&self.coordinator, key, mode, bounds, acquire);
        self.coordinator.serve(entered).await.map_err(told)
    }

    pub(super) async fn list(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.coordinator.list(&self.queue, Page { after, most }).await
    }

    pub(super) async fn force_release(&self, sequence: u64) -> Result<bool> {
        let revoked = self.coordinator.serve(self.coordinator.backend().revoke(&self.queue, sequence)).await;
        revoked.map_err(|error| error.in_operation("force_release").on(self.queue.name()))
    }
}
