//! From a recipe's request to a hold, common to all recipes over a queue.

use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;

use super::acquire::Acquire;
use super::leadership::Leading;
use super::node_data::checked_data;
use super::verb::Ask;
use super::watcher::Watcher;
use crate::address::Address;
use crate::attempt::{self, Admitted, Request};
use crate::client::Client;
use crate::clock::Moment;
use crate::contracts::{AskedLimit, Entry, Page, Patience};
use crate::decide::Claim;
use crate::error::Result;
use crate::held_node::HeldNode;
use crate::moving::{self, Participant};
use crate::reentrancy::{Bounds, Mode, Owner, Owners, Share};
use crate::seen::{RecipeMeter, SeenAcquisition};
use crate::watched::list_all;

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
    // Of a client of both sides of a move.
    moving: Option<Arc<Participant>>,
    meter: Arc<RecipeMeter>,
}

/// An acquired hold.
pub(super) struct Acquired {
    pub(super) held: HeldNode,
    pub(super) waited: Duration,
}

impl QueueHandle {
    /// `recipe` is its name in traces and metrics.
    pub(crate) fn new(
        owners: &Arc<Owners>,
        queue: Address,
        recipe: &'static str,
        moving: Option<Arc<Participant>>,
    ) -> Self {
        let meter = owners.client().meters.of(recipe);
        Self { owners: Arc::clone(owners), queue, moving, meter }
    }

    /// Whether its client is one of both sides of a move.
    pub(super) fn moves(&self) -> bool {
        self.moving.is_some()
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        self.owners.client()
    }

    /// Names the operation and the key in an error.
    pub(super) fn in_context<T>(&self, operation: &'static str, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.in_operation(operation).on(self.queue.name()))
    }

    /// Joins, waits if it may, and makes a hold without an owner. `None` if a try was refused.
    pub(super) async fn alone(
        &self,
        ask: Ask<'_>,
        claim: Claim,
        limit: AskedLimit,
    ) -> Result<Option<Acquired>> {
        self.acquire(ask, claim, limit, Ok(Arc::default())).await
    }

    /// As [`alone`](QueueHandle::alone), with data for the node.
    pub(super) async fn with_data(
        &self,
        ask: Ask<'_>,
        claim: Claim,
        data: &[u8],
    ) -> Result<Option<Acquired>> {
        self.acquire(ask, claim, AskedLimit::Stored, checked_data(data)).await
    }

    async fn acquire(
        &self,
        ask: Ask<'_>,
        claim: Claim,
        limit: AskedLimit,
        data: Result<Arc<[u8]>>,
    ) -> Result<Option<Acquired>> {
        let Ask { operation, patience, .. } = ask;
        let options = ask.options();
        let at_least = options.at_least;
        let acquired = async {
            let request = Request { data: data?, ..self.request(options, claim, limit, patience)? };
            self.carry_out(&request, at_least).await
        };
        self.in_context(operation, acquired.await)
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
        if client.is_connected() {
            client.check_confirms(options.min_replicas)?;
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
            min_replicas: options.min_replicas,
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
        let client = self.client();
        let seen = SeenAcquisition::begin(&self.meter, self.queue.shared_name(), client.clock());
        let acquired = match &self.moving {
            None => attempt::acquire(client, request).instrument(seen.span()).await,
            // Boxed: it holds acquisitions of both sides.
            Some(participant) => {
                let acquiring = Box::pin(moving::acquire(participant, client, request));
                acquiring.instrument(seen.span()).await
            }
        };
        match acquired {
            Ok(Some(Admitted { node, waited })) => {
                let seen = seen.acquired(node.state().token(), waited);
                let held = HeldNode::new(Arc::clone(client), self.queue.clone(), node, at_least, seen);
                Ok(Some(Acquired { held, waited }))
            }
            Ok(None) => {
                seen.refused();
                Ok(None)
            }
            Err(error) => {
                seen.failed(&error);
                Err(error)
            }
        }
    }

    /// Enters again if `owner` holds, else joins as [`alone`](QueueHandle::alone). `None` if a try
    /// was refused.
    pub(super) async fn enter(&self, ask: Ask<'_>, owner: &Owner, mode: Mode) -> Result<Option<Share>> {
        let Ask { operation, patience, .. } = ask;
        let options = Ask { owner: Some(owner), ..ask }.options();
        let at_least = options.at_least;
        // Validates the options for a re-entry too; its deadline covers all that follows.
        let request = self.request(options, mode.claim(), AskedLimit::Stored, patience);
        let request = self.in_context(operation, request)?;
        let acquire = |on_queue| {
            let (queue, request) = (self.clone(), Request { on_queue: Some(on_queue), ..request.clone() });
            async move { Ok(queue.carry_out(&request, at_least).await?.map(|acquired| acquired.held)) }
        };
        let key = (owner.clone(), self.queue.clone());
        let bounds = Bounds { deadline: request.deadline, patience, fail_fast: request.fail_fast };
        let entered = Share::enter(&self.owners, key, mode, bounds, acquire);
        self.in_context(operation, self.client().serve(entered).await)
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
        let listed =
            client.serve(client.backend.list(&self.queue, Page::new(after, most).with_leases())).await;
        self.in_context("list", listed)
    }

    /// Who leads, by the head of the queue.
    pub(super) fn leading(&self, head: &[Entry]) -> Result<Option<Leading>> {
        Leading::of(head, |sequence| self.client().backend.token(sequence))
    }

    /// Lists all of it, page by page.
    pub(super) async fn list_all(&self) -> Result<Vec<Entry>> {
        let client = self.client();
        client.serve(list_all(&*client.backend, &self.queue)).await
    }

    /// Watches it, together with all who watch it on this client, and waits until it was read.
    pub(super) async fn watch(&self) -> Result<Watcher<Arc<[Entry]>>> {
        let client = self.client();
        Watcher::open(client, client.watch_queue(&self.queue)).await
    }

    pub(super) async fn force_release(&self, sequence: u64) -> Result<bool> {
        let client = self.client();
        let revoked = client.serve(client.backend.revoke(&self.queue, sequence)).await;
        self.in_context("force_release", revoked)
    }
}
