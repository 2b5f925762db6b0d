use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tracing::Instrument;

use super::acquire::{Acquiring, Take};
use super::ask::Ask;
use super::hold::Hold;
use super::leadership::Leader;
use crate::address::Address;
use crate::attempt::{self, Admitted, Request};
use crate::client::Client;
use crate::clock::Moment;
use crate::contracts::{EntryPage, Patience, QueueEntry};
use crate::decide::Claim;
use crate::error::Result;
use crate::held_node::HeldNode;
use crate::listing::{Listing, Page, Pages, numbered, sequence};
use crate::moving::{self, Participant};
use crate::reentrancy::{Bounds, Mode, Owner, Owners, Share};
use crate::seen::{RecipeMeter, SeenAcquisition};
use crate::watched::list_all;

#[derive(Clone)]
pub(crate) struct QueueHandle {
    pub(super) owners: Arc<Owners>,
    pub(super) queue: Address,
    // Only for a client of both sides of a move.
    pub(super) moving: Option<Arc<Participant>>,
    meter: Arc<RecipeMeter>,
}

pub(super) struct AcquiredNode {
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

    pub(super) fn client(&self) -> &Arc<Client> {
        self.owners.client()
    }

    pub(super) fn in_context<T>(&self, operation: &'static str, answer: Result<T>) -> Result<T> {
        answer.map_err(|error| error.in_operation(operation).on(self.queue.name()))
    }

    pub(super) fn request(&self, ask: &Ask) -> Result<Request> {
        ask.check()?;
        let client = self.client();
        if client.is_connected() {
            client.check_confirms(ask.min_replicas)?;
        }
        Ok(Request {
            queue: self.queue.clone(),
            claim: ask.claim,
            limit: ask.limit,
            deadline: self.deadline(ask),
            label: Arc::clone(ask.shown().unwrap_or(&client.label)),
            data: Arc::clone(&ask.data),
            patience: ask.patience,
            request_timeout: client.request_timeout,
            fail_fast: ask.fail_fast,
            max_hold: ask.max_hold,
            min_replicas: ask.min_replicas,
            on_queue: None,
        })
    }

    /// A try has the time of one request.
    fn deadline(&self, ask: &Ask) -> Moment {
        let within = match (ask.patience, ask.within) {
            (Patience::Try, _) => self.client().request_timeout,
            (Patience::Wait, Some(within)) => within,
            (Patience::Wait, None) => return Moment::NEVER,
        };
        // An endless `within` is a deadline too: the acquisition then waits through an outage.
        (self.client().clock().now() + within).min(Moment::from_nanos(Moment::NEVER.as_nanos() - 1))
    }

    pub(super) async fn acquire(
        &self,
        request: &Request,
        min_hold: Option<Duration>,
    ) -> Result<Option<AcquiredNode>> {
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
                let held = HeldNode::new(Arc::clone(client), self.queue.clone(), node, min_hold, seen);
                Ok(Some(AcquiredNode { held, waited }))
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

    async fn enter(self: &Arc<Self>, ask: &Ask, owner: &Owner, mode: Mode) -> Result<Option<Hold>> {
        let clock = self.client().clock();
        let begun = clock.now();
        // A re-entry checks the options too.
        let request = self.in_context(ask.operation, self.request(ask))?;
        let min_hold = ask.min_hold;
        let acquire = |on_queue| {
            let (queue, request) =
                (Arc::clone(self), Request { on_queue: Some(on_queue), ..request.clone() });
            async move { Ok(queue.acquire(&request, min_hold).await?.map(|acquired| acquired.held)) }
        };
        let key = (owner.clone(), self.queue.clone());
        let bounds =
            Bounds { deadline: request.deadline, patience: ask.patience, fail_fast: request.fail_fast };
        let entered = Share::enter(&self.owners, key, mode, bounds, acquire);
        let entered = self.in_context(ask.operation, self.client().serve(entered).await)?;
        Ok(entered.map(|share| Hold::of_owner(share, ask.claim, clock.now().since(begun))))
    }

    pub(super) fn hold_count(&self, owner: &Owner) -> usize {
        self.owners.count(&(owner.clone(), self.queue.clone()))
    }

    /// `then` runs after the node was removed.
    pub(super) fn leave_and_then(
        &self,
        acquired: Option<AcquiredNode>,
        then: impl Future<Output = ()> + Send + 'static,
    ) {
        drop(acquired);
        self.client().cleanup.afterwards(&self.queue, then);
    }

    pub(super) async fn list(&self, after: u64, most: usize) -> Result<Vec<QueueEntry>> {
        let client = self.client();
        let listed =
            client.serve(client.backend.list(&self.queue, EntryPage::new(after, most).with_leases())).await;
        self.in_context("list", listed)
    }

    pub(super) fn leading(&self, head: &[QueueEntry]) -> Result<Option<Leader>> {
        Leader::of(head, |sequence| self.client().tokens.of(sequence))
    }

    pub(super) fn listing(self: &Arc<Self>) -> Listing<QueueEntry> {
        Listing::of(QueuePages(Arc::clone(self)))
    }

    pub(super) async fn list_all(&self) -> Result<Vec<QueueEntry>> {
        let client = self.client();
        client.serve(list_all(&*client.backend, &self.queue)).await
    }

    pub(super) async fn force_release(&self, sequence: u64) -> Result<bool> {
        let client = self.client();
        let revoked = client.serve(client.backend.revoke(&self.queue, sequence)).await;
        self.in_context("force_release", revoked)
    }
}

impl Take for QueueHandle {
    fn take(self: Arc<Self>, ask: Ask) -> Acquiring {
        Box::pin(async move {
            match (&ask.owner, ask.claim) {
                (Some(owner), Claim::Exclusive) => self.enter(&ask, owner, Mode::Exclusive).await,
                (Some(owner), Claim::Shared) => self.enter(&ask, owner, Mode::Shared).await,
                (_, claim) => {
                    let request = self.in_context(ask.operation, self.request(&ask))?;
                    let acquired = self.acquire(&request, ask.min_hold).await;
                    let acquired = self.in_context(ask.operation, acquired)?;
                    Ok(acquired.map(|acquired| Hold::of_node(acquired.held, claim, acquired.waited)))
                }
            }
        })
    }

    fn key(&self) -> &str {
        self.queue.name()
    }
}

struct QueuePages(Arc<QueueHandle>);

#[async_trait]
impl Pages<QueueEntry> for QueuePages {
    fn name(&self) -> &str {
        self.0.queue.name()
    }

    async fn page(&self, after: Option<&str>, most: usize) -> Result<Page<QueueEntry>> {
        let after = self.0.in_context("queue", sequence(after))?;
        Ok(numbered(self.0.list(after, most).await?, most, |entry| entry.sequence))
    }
}
