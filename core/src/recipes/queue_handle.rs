//! From a recipe's request to a hold, common to all recipes over a queue.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::acquire::Acquire;
use super::verb::Ask;
use crate::address::Address;
use crate::attempt::{self, Request};
use crate::client::Client;
use crate::clock::Moment;
use crate::contracts::{AskedLimit, Entry, Page, Patience};
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::held_node::HeldNode;
use crate::reentrancy::{Bounds, Mode, Owner, Owners, Share};

impl Ask<'_> {
    /// The options; the label is the owner's unless another is given.
    pub(super) fn options(self) -> Acquire {
        let mut options = self.options;
        if let Some(owner) = self.owner {
            options.label.get_or_insert_with(|| Arc::clone(owner.label()));
        }
        options
    }
}

/// The queue of one recipe's handle.
#[derive(Clone)]
pub(crate) struct QueueHandle {
    pub(super) owners: Arc<Owners>,
    pub(super) queue: Address,
    /// The recipe's name in traces.
    recipe: &'static str,
}

/// An acquired hold.
pub(super) struct Acquired {
    pub(super) held: HeldNode,
    pub(super) waited: Duration,
}

impl QueueHandle {
    pub(crate) fn new(owners: &Arc<Owners>, queue: Address, recipe: &'static str) -> Self {
        Self { owners: Arc::clone(owners), queue, recipe }
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        self.owners.client()
    }

    /// Joins, waits if it may, and makes a hold without an owner. `None` if a try was refused.
    pub(super) async fn alone(
        &self,
        ask: Ask<'_>,
        claim: Claim,
        limit: AskedLimit,
    ) -> Result<Option<Acquired>> {
        let Ask { operation, patience, .. } = ask;
        let options = ask.options();
        let at_least = options.at_least;
        let in_context = |error: Error| error.in_operation(operation).on(self.queue.name());
        let request = self.request(options, claim, limit, patience).map_err(in_context)?;
        self.carry_out(&request, at_least).await.map_err(in_context)
    }

    fn request(
        &self,
        options: Acquire,
        claim: Claim,
        limit: AskedLimit,
        patience: Patience,
    ) -> Result<Request> {
        options.check()?;
        let client = self.client();
        let min_replicas = options.min_replicas.unwrap_or(client.min_replicas);
        if client.is_connected() {
            client.check_confirms(min_replicas)?;
        }
        Ok(Request {
            queue: self.queue.clone(),
            claim,
            limit,
            deadline: self.deadline(&options, patience),
            label: options.label.unwrap_or_else(|| Arc::clone(&client.label)),
            data: Arc::default(),
            patience,
            request_timeout: client.request_timeout,
            fail_fast: options.fail_fast,
            max_hold: options.max_hold,
            min_replicas,
            on_queue: None,
        })
    }

    /// The instant of its total deadline; for a try, of its answer.
    fn deadline(&self, options: &Acquire, patience: Patience) -> Moment {
        let within = match (patience, options.within) {
            (Patience::Try, _) => self.client().request_timeout,
            (Patience::Wait, Some(within)) => within,
            (Patience::Wait, None) => return Moment::NEVER,
        };
        // An endless duration is a deadline too, for which an unreachable server is waited for.
        (self.client().clock().now() + within).min(Moment::from_nanos(Moment::NEVER.as_nanos() - 1))
    }

    async fn carry_out(&self, request: &Request, at_least: Option<Duration>) -> Result<Option<Acquired>> {
        let (recipe, key) = (self.recipe, self.queue.name());
        let begun = self.client().clock().now();
        let admitted = attempt::acquire(self.client(), request)
            .instrument(tracing::debug_span!("latchwork.wait", recipe, key))
            .await
            .inspect_err(|error| {
                let waited = self.client().clock().now().since(begun);
                tracing::debug!(recipe, key, ?waited, %error, "not acquired");
            })?;
        Ok(admitted.map(|admitted| {
            let held = HeldNode::new(Arc::clone(self.client()), self.queue.clone(), admitted.node, at_least);
            let (token, waited) = (held.token(), admitted.waited);
            tracing::debug!(recipe, key, %token, ?waited, "acquired");
            let lost = tracing::field::Empty;
            held.trace(tracing::debug_span!("latchwork.hold", recipe, key, %token, ?waited, lost));
            Acquired { held, waited: admitted.waited }
        }))
    }

    /// Enters again if `owner` holds, else joins as [`alone`](QueueHandle::alone). `None` if a try
    /// was refused.
    pub(super) async fn enter(&self, ask: Ask<'_>, owner: &Owner, mode: Mode) -> Result<Option<Share>> {
        let Ask { operation, patience, .. } = ask;
        let in_context = |error: Error| error.in_operation(operation).on(self.queue.name());
        let options = Ask { owner: Some(owner), ..ask }.options();
        let at_least = options.at_least;
        // Validates the options for a re-entry too; its deadline covers all that follows.
        let request =
            self.request(options, mode.claim(), AskedLimit::Stored, patience).map_err(in_context)?;
        let acquire = |on_queue| {
            let (queue, request) = (self.clone(), Request { on_queue: Some(on_queue), ..request.clone() });
            async move { Ok(queue.carry_out(&request, at_least).await?.map(|acquired| acquired.held)) }
        };
        let key = (owner.clone(), self.queue.clone());
        let bounds = Bounds { deadline: request.deadline, patience, fail_fast: request.fail_fast };
        let entered = Share::enter(&self.owners, key, mode, bounds, acquire);
        self.client().serve(entered).await.map_err(in_context)
    }

    /// Gives a hold back in the background, and does what is to follow once its node is gone.
    pub(super) fn leave_and_then(
        &self,
        acquired: Option<Acquired>,
        then: impl Future<Output = ()> + Send + 'static,
    ) {
        drop(acquired);
        self.client().cleanup.afterwards(&self.queue, then);
    }

    pub(super) async fn list(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        let client = self.client();
        let listed = client.serve(client.backend.list(&self.queue, Page { after, most })).await;
        listed.map_err(|error| error.in_operation("list").on(self.queue.name()))
    }

    pub(super) async fn force_release(&self, sequence: u64) -> Result<bool> {
        let client = self.client();
        let revoked = client.serve(client.backend.revoke(&self.queue, sequence)).await;
        revoked.map_err(|error| error.in_operation("force_release").on(self.queue.name()))
    }
}
