//! What all recipes over a queue share: the options of an acquisition, and the way from a request to a hold.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use crate::address::Address;
use crate::attempt::Request;
use crate::clock::Moment;
use crate::contracts::{Entry, Page, Patience};
use crate::coordinator::Coordinator;
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::holding::Holding;
use crate::label;

/// How to acquire.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Acquire {
    within: Option<Duration>,
    label: Option<Arc<str>>,
    max_hold: Option<Duration>,
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

    /// Another label than the coordinator's in listings, up to 4 KiB.
    pub fn label(mut self, label: impl Into<Arc<str>>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// The hold ends after `length` whatever happens, so that a hung task does not hold for ever
    /// (LEASE-FIXED). It counts from the send of an uncontended join, else from the admission.
    pub fn max_hold(mut self, length: Duration) -> Self {
        self.max_hold = Some(length);
        self
    }

    /// Refuses what can be refused before anything is asked.
    pub(super) fn check(&self) -> Result<()> {
        for (name, length) in [("deadline", self.within), ("max_hold", self.max_hold)] {
            if length.is_some_and(|length| length.is_zero()) {
                return Err(Error::invalid(name, "must not be zero"));
            }
        }
        self.label.as_deref().map_or(Ok(()), label::check)
    }

    /// The instant of its total deadline; for a try, of its answer.
    pub(super) fn deadline(&self, coordinator: &Coordinator, patience: Patience) -> Moment {
        match (patience, self.within) {
            (Patience::Try, _) => coordinator.clock().now() + coordinator.request_timeout(),
            (Patience::Wait, Some(within)) => coordinator.clock().now() + within,
            (Patience::Wait, None) => Moment::NEVER,
        }
    }

    /// What is left until `deadline` of an acquisition that has begun before.
    pub(super) fn until(mut self, coordinator: &Coordinator, deadline: Moment) -> Self {
        if deadline != Moment::NEVER {
            let left = deadline.since(coordinator.clock().now());
            self.within = Some(left.max(Duration::from_nanos(1)));
        }
        self
    }

    pub(super) fn labelled_unless_given(mut self, label: &Arc<str>) -> Self {
        self.label.get_or_insert_with(|| Arc::clone(label));
        self
    }

    fn request(self, line: &Line, claim: Claim, limit: Option<u32>, patience: Patience) -> Result<Request> {
        let Line { coordinator, queue, .. } = line;
        self.check()?;
        let deadline = self.deadline(coordinator, patience);
        let label = self.label.unwrap_or_else(|| Arc::clone(coordinator.default_label()));
        Ok(Request { queue: queue.clone(), claim, limit, label, patience, deadline, max_hold: self.max_hold })
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
    /// Joins, waits if `patience` allows it, and makes the hold. `None`: a try was refused.
    pub(super) async fn ask(
        &self,
        operation: &'static str,
        options: Acquire,
        claim: Claim,
        limit: Option<u32>,
        patience: Patience,
    ) -> Result<Option<Acquired>> {
        let (recipe, key) = (self.recipe, self.queue.name());
        let request = options
            .request(self, claim, limit, patience)
            .map_err(|error| error.in_operation(operation).on(key))?;
        let admitted = self
            .coordinator
            .acquire(&request)
            .instrument(tracing::debug_span!("latchwork.wait", recipe, key))
            .await
            .map_err(|error| error.in_operation(operation).on(key))?;
        Ok(admitted.map(|admitted| {
            let holding = Holding::new(self.coordinator.clone(), self.queue.clone(), admitted.node);
            tracing::debug!(recipe, key, token = %holding.token(), waited = ?admitted.waited, "acquired");
            Acquired { holding, waited: admitted.waited }
        }))
    }

    /// As [`ask`](Line::ask), and waits.
    pub(super) async fn wait(
        &self,
        operation: &'static str,
        options: Acquire,
        claim: Claim,
        limit: Option<u32>,
    ) -> Result<Acquired> {
        match self.ask(operation, options, claim, limit, Patience::Wait).await? {
            Some(acquired) => Ok(acquired),
            None => unreachable!("only a try is refused"),
        }
    }

    pub(super) async fn list(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.coordinator.list(&self.queue, Page { after, most }).await
    }
}
