//! The way of all recipes over a queue, from a request to a hold.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::acquire::Acquire;
use super::verb::Ask;
use crate::address::Address;
use crate::attempt::Request;
use crate::clock::Moment;
use crate::contracts::{AskedLimit, Entry, Page, Patience};
use crate::coordinator::Coordinator;
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::holding::Holding;
use crate::reentrancy::{Bounds, Mode, Owner, Share};

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
pub(super) struct QueueHandle {
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

impl QueueHandle {
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
        let request = self.request(options, claim, limit, patience).map_err(told)?;
        self.carry_out(&request, at_least).await.map_err(told)
    }

    fn request(
        &self,
        options: Acquire,
        claim: Claim,
        limit: AskedLimit,
        patience: Patience,
    ) -> Result<Request> {
        options.check()?;
        let coordinator = &self.coordinator;
        Ok(Request {
            queue: self.queue.clone(),
            claim,
            limit,
            deadline: self.deadline(&options, patience),
            label: options.label.unwrap_or_else(|| Arc::clone(coordinator.default_label())),
            patience,
            request_timeout: coordinator.request_timeout(),
            fail_fast: options.fail_fast,
            max_hold: options.max_hold,
            on_queue: None,
        })
    }

    /// The instant of its total deadline; for a try, of its answer.
    fn deadline(&self, options: &Acquire, patience: Patience) -> Moment {
        let within = match (patience, options.within) {
            (Patience::Try, _) => self.coordinator.request_timeout(),
            (Patience::Wait, Some(within)) => within,
            (Patience::Wait, None) => return Moment::NEVER,
        };
        // One without an end is a deadline too, for which an unreachable server is waited for.
        (self.coordinator.clock().now() + within).min(Moment::from_nanos(Moment::NEVER.as_nanos() - 1))
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

    /// Enters again where `owner` holds, else joins as [`alone`](QueueHandle::alone). `None`: a try was refused.
    pub(super) async fn enter(&self, ask: Ask<'_>, owner: &Owner, mode: Mode) -> Result<Option<Share>> {
        let Ask { operation, patience, .. } = ask;
        let told = |error: Error| error.in_operation(operation).on(self.queue.name());
        let options = Ask { owner: Some(owner), ..ask }.options();
        let at_least = options.at_least;
        // Made of options that are refused for a re-entry too; its deadline is that of all that follows.
        let request = self.request(options, mode.claim(), AskedLimit::Stored, patience).map_err(told)?;
        let acquire = |on_queue| {
            let (queue, request) = (self.clone(), Request { on_queue: Some(on_queue), ..request.clone() });
            async move { Ok(queue.carry_out(&request, at_least).await?.map(|acquired| acquired.holding)) }
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
