//! Nodes on their way out: what a dropped guard or a dropped acquire left behind is taken back here, in
//! the background, again and again until it is confirmed or its lease is lost (NODE-CANCEL, NODE-LEAVE-OWN). What the server
//! refuses is reported at once, nobody waits for it, and it is tried on all the same, seldom.
//!
//! A join waits until this client's own departures from that queue are settled that were pending when it came (RULES A18), so
//! that `drop(guard)` and then `try_acquire` by the same client succeeds on every backend. Who departs after it is not its
//! matter: where many of one client come and go there may always be one. A node that is kept for a least time
//! (`hold_at_least`) departs when that is over, and is nobody's departure before: a join meets it in the queue.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Backend, Close, Join, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::pauses::Pauses;

/// What is to be taken back.
#[derive(Clone)]
pub(crate) enum Departure {
    /// A node that is known.
    Leave(Address, Arc<dyn Node>),
    /// A writer's node of which a reader's remains: `at_once`, or when the node's least time is over.
    Downgrade { queue: Address, node: Arc<dyn Node>, at_once: bool },
    /// An attempt whose outcome is unknown, and the instant after which its lease has taken it anyway.
    Abandon(Join, Moment),
}

impl Departure {
    fn queue(&self) -> &Address {
        match self {
            Departure::Leave(queue, _) | Departure::Downgrade { queue, .. } => queue,
            Departure::Abandon(join, _) => &join.queue,
        }
    }

    /// Whether there is nothing left to take back: the server has forgotten it by itself.
    fn is_moot(&self, now: Moment) -> bool {
        match self {
            // The margin and more have passed on the server too when our own deadline lies a TTL behind.
            Departure::Leave(_, node) | Departure::Downgrade { node, .. } => {
                let lease = node.state().lease();
                now >= lease.deadline() + lease.ttl()
            }
            Departure::Abandon(_, moot) => now >= *moot,
        }
    }

    async fn carry_out(&self, backend: &dyn Backend) -> Result<()> {
        match self {
            Departure::Leave(_, node) => node.leave().await,
            Departure::Downgrade { node, .. } => node.downgrade().await,
            Departure::Abandon(join, _) => backend.abandon(join).await,
        }
    }

    /// The node that is not to be given back yet.
    fn kept(&self) -> Option<Arc<dyn Node>> {
        match self {
            Departure::Leave(_, node) | Departure::Downgrade { node, at_once: false, .. } => {
                let state = node.state();
                // What was lost, at a fixed end say, is kept no more.
                (state.is_kept() && state.lost().is_none()).then(|| Arc::clone(node))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departure::Leave(queue, node) => write!(f, "Leave({queue:?}, {node:?})"),
            Departure::Downgrade { queue, node, .. } => write!(f, "Downgrade({queue:?}, {node:?})"),
            Departure::Abandon(join, _) => write!(f, "Abandon({:?}, {})", join.queue, join.id),
        }
    }
}

/// The background task's address. When the last clone is dropped, the task settles what is left and closes the backend.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    sender: mpsc::UnboundedSender<Underway>,
    pending: Arc<Pending>,
    runtime: Handle,
}

/// A departure that counts as pending until it is dropped: settled, or lost with its task (a panic in a
/// driver) or its runtime. Whoever waits for it must not wait for ever.
struct Underway {
    departure: Departure,
    pending: Arc<Pending>,
    // Since it counts.
    number: Option<u64>,
}

impl Underway {
    fn new(departure: Departure, pending: Arc<Pending>) -> Self {
        let kept = departure.kept().is_some();
        let mut underway = Self { departure, pending, number: None };
        if !kept {
            underway.count();
        }
        underway
    }

    fn count(&mut self) {
        if self.number.is_none() {
            self.number = Some(self.pending.numbers.lock().add(self.departure.queue()));
        }
    }

    /// Waits out the least time that its node is kept for.
    async fn due(&mut self) {
        if let Some(node) = self.departure.kept() {
            kept_out(&*node).await;
        }
        self.count();
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.pending.done(self.departure.queue(), number);
        }
    }
}

/// Waits until a node's least time is over, or there is nothing to keep any more.
async fn kept_out(node: &dyn Node) {
    let state = node.state();
    tokio::select! {
        () = state.lease().clock().sleep_until(state.kept_until()) => {}
        _ = state.until_lost() => {}
    }
}

#[derive(Debug, Default)]
struct Pending {
    numbers: Mutex<Numbers>,
    settled: Notify,
    // Nodes with a least time, held or let go: what an orderly close waits for.
    kept: Mutex<Vec<Weak<dyn Node>>>,
}

/// The pending departures, numbered as they came.
#[derive(Debug, Default)]
struct Numbers {
    next: u64,
    all: BTreeSet<u64>,
    queues: HashMap<Address, BTreeSet<u64>>,
}

impl Numbers {
    fn add(&mut self, queue: &Address) -> u64 {
        let number = self.next;
        self.next += 1;
        self.all.insert(number);
        self.queues.entry(queue.clone()).or_default().insert(number);
        number
    }

    fn remove(&mut self, queue: &Address, number: u64) {
        self.all.remove(&number);
        if let Some(numbers) = self.queues.get_mut(queue) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.queues.remove(queue);
            }
        }
    }

    /// The one that has been pending for the longest: of a queue, or at all.
    fn first(&self, queue: Option<&Address>) -> Option<u64> {
        let numbers = match queue {
            Some(queue) => self.queues.get(queue)?,
            None => &self.all,
        };
        numbers.first().copied()
    }
}

impl Departures {
    /// Starts the background task on the current runtime.
    pub(crate) fn start(backend: Arc<dyn Backend>, request_timeout: Duration) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pending = Arc::new(Pending::default());
        let runtime = Handle::current();
        runtime.spawn(work(backend, receiver, request_timeout));
        Self { sender, pending, runtime }
    }

    /// Starts what is to go on beside a hold on the runtime of the background task: that of whoever acquired it may be gone
    /// before, or not be driven.
    pub(crate) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    /// Queues a departure. Never blocks, needs no runtime.
    pub(crate) fn push(&self, departure: Departure) {
        let underway = Underway::new(departure, Arc::clone(&self.pending));
        if self.sender.send(underway).is_err() {
            tracing::debug!("a departure after the end of its runtime; the lease takes the node back");
        }
    }

    /// A node is held for a least time from now on.
    pub(crate) fn keep(&self, node: &Arc<dyn Node>) {
        let mut kept = self.pending.kept.lock();
        kept.retain(|node| node.upgrade().is_some_and(|node| node.state().is_kept()));
        kept.push(Arc::downgrade(node));
    }

    /// Waits until the least time of every hold is over that there is now. (Others may begin meanwhile, without end.)
    pub(crate) async fn kept_out(&self) {
        let kept: Vec<_> = self.pending.kept.lock().iter().filter_map(Weak::upgrade).collect();
        for node in kept {
            kept_out(&*node).await;
        }
    }

    /// Waits until no departure from `queue` is pending that is pending now.
    pub(crate) async fn settled(&self, queue: &Address) {
        self.wait(Some(queue)).await;
    }

    /// Waits until no departure at all is pending that is pending now.
    pub(crate) async fn all_settled(&self) {
        self.wait(None).await;
    }

    async fn wait(&self, queue: Option<&Address>) {
        let later = {
            let numbers = self.pending.numbers.lock();
            // What nearly always holds costs one look.
            if numbers.first(queue).is_none() {
                return;
            }
            numbers.next
        };
        loop {
            let notified = self.pending.settled.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if self.pending.numbers.lock().first(queue).is_none_or(|first| first >= later) {
                return;
            }
            notified.await;
        }
    }
}

impl Pending {
    fn done(&self, queue: &Address, number: u64) {
        self.numbers.lock().remove(queue, number);
        self.settled.notify_waiters();
    }
}

async fn work(
    backend: Arc<dyn Backend>,
    mut receiver: mpsc::UnboundedReceiver<Underway>,
    request_timeout: Duration,
) {
    let (mut running, mut refused) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            biased;
            underway = receiver.recv() => {
                let Some(mut underway) = underway else { break };
                let backend = Arc::clone(&backend);
                running.spawn(async move {
                    underway.due().await;
                    let outcome = settle(&*backend, &underway.departure, request_timeout).await;
                    let refused = outcome.as_ref().is_err_and(|error| !is_over(error));
                    if let Departure::Leave(_, node) = &underway.departure {
                        node.state().depart(outcome);
                    }
                    // From here on nobody waits for it.
                    refused.then(|| underway.departure.clone())
                });
            }
            Some(ended) = running.join_next(), if !running.is_empty() => {
                if let Ok(Some(departure)) = ended {
                    let backend = Arc::clone(&backend);
                    refused.spawn(async move { insist(&*backend, &departure).await });
                }
            }
            // Reaped so that the set does not grow.
            Some(_) = refused.join_next(), if !refused.is_empty() => {}
        }
    }
    while running.join_next().await.is_some() {}
    // The close gives back what they would.
    drop(refused);
    // All handles are gone: dropping a coordinator gives everything back, in the background (LEASE-CLOSE).
    if let Err(error) = backend.close(Close::Orderly).await {
        tracing::debug!(%error, "a dropped coordinator was not closed in order; its lease runs out");
    }
}

/// Carries out, seldom, what was refused. A refusal may end (a full server gets space, a user its role again), while the
/// lease that the node hangs on may live as long as this process: until then the node stands in everybody's way.
async fn insist(backend: &dyn Backend, departure: &Departure) {
    let clock = backend.lease().clock().clone();
    // Where many nodes hang on one lease, a late join of an abandoned attempt lives on with it.
    let over = || {
        let on_one_lease =
            matches!(departure, Departure::Abandon(..)) && !backend.capabilities().lease_per_node;
        departure.is_moot(clock.now()) && !on_one_lease
    };
    let mut pauses = Pauses::new(Duration::from_secs(1), Duration::from_secs(30));
    while !over() {
        pauses.pause(&clock).await;
        match departure.carry_out(backend).await {
            Ok(()) => return,
            Err(error) if is_over(&error) => return,
            Err(error) => tracing::debug!(?departure, %error, "a departure is refused still"),
        }
    }
}

/// There is nothing left to take back: its lease has taken it, it was given back meanwhile, or the client is closed.
pub(crate) fn is_over(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Lost { .. } | ErrorKind::NotHeld | ErrorKind::Closed)
}

/// Carries a departure out, again and again: until it is confirmed, refused, or moot. The pauses are short beside the time that a try
/// has, which may wait for it.
pub(crate) async fn settle(
    backend: &dyn Backend,
    departure: &Departure,
    request_timeout: Duration,
) -> Result<()> {
    let clock = backend.lease().clock().clone();
    let first = Duration::from_millis(20);
    // With their jitter up to half of that time.
    let mut pauses = Pauses::new(first, (request_timeout / 4).clamp(first, Duration::from_secs(1)));
    while let Err(error) = departure.carry_out(backend).await {
        if !error.is_retryable() {
            tracing::debug!(?departure, %error, "a departure was refused");
            return Err(error);
        }
        if departure.is_moot(clock.now()) {
            tracing::debug!(?departure, %error, "a departure was not confirmed within its lease");
            return Err(error);
        }
        pauses.pause(&clock).await;
    }
    Ok(())
}
