//! Nodes on their way out: what a dropped guard or a dropped acquire left behind is taken back here, in
//! the background, again and again until it is confirmed or its lease is lost (NODE-CANCEL, NODE-LEAVE-OWN). What the server
//! refuses is reported at once, nobody waits for it, and it is tried on all the same, seldom.
//!
//! A join waits until this client's own departures from that queue are settled (RULES A18), so that
//! `drop(guard)` and then `try_acquire` by the same client succeeds on every backend. A node that is kept for a least time
//! (`hold_at_least`) departs when that is over, and is nobody's departure before: a join meets it in the queue.

use std::collections::HashMap;
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
    /// A writer's node of which a reader's remains.
    Downgrade(Address, Arc<dyn Node>),
    /// An attempt whose outcome is unknown, and the instant after which its lease has taken it anyway.
    Abandon(Join, Moment),
}

impl Departure {
    fn queue(&self) -> &Address {
        match self {
            Departure::Leave(queue, _) | Departure::Downgrade(queue, _) => queue,
            Departure::Abandon(join, _) => &join.queue,
        }
    }

    /// Whether there is nothing left to take back: the server has forgotten it by itself.
    fn is_moot(&self, now: Moment) -> bool {
        match self {
            // The margin and more have passed on the server too when our own deadline lies a TTL behind.
            Departure::Leave(_, node) | Departure::Downgrade(_, node) => {
                let lease = node.state().lease();
                now >= lease.deadline() + lease.ttl()
            }
            Departure::Abandon(_, moot) => now >= *moot,
        }
    }

    async fn carry_out(&self, backend: &dyn Backend) -> Result<()> {
        match self {
            Departure::Leave(_, node) => node.leave().await,
            Departure::Downgrade(_, node) => node.downgrade().await,
            Departure::Abandon(join, _) => backend.abandon(join).await,
        }
    }

    /// The node that is not to be given back yet.
    fn kept(&self) -> Option<Arc<dyn Node>> {
        match self {
            Departure::Leave(_, node) | Departure::Downgrade(_, node) if node.state().is_kept() => {
                Some(Arc::clone(node))
            }
            _ => None,
        }
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departure::Leave(queue, node) => write!(f, "Leave({queue:?}, {node:?})"),
            Departure::Downgrade(queue, node) => write!(f, "Downgrade({queue:?}, {node:?})"),
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
    counted: bool,
}

impl Underway {
    fn new(departure: Departure, pending: Arc<Pending>) -> Self {
        let kept = departure.kept().is_some();
        let mut underway = Self { departure, pending, counted: false };
        if !kept {
            underway.count();
        }
        underway
    }

    fn count(&mut self) {
        if !std::mem::replace(&mut self.counted, true) {
            *self.pending.queues.lock().entry(self.departure.queue().clone()).or_default() += 1;
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
        if self.counted {
            self.pending.done(self.departure.queue());
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
    queues: Mutex<HashMap<Address, usize>>,
    settled: Notify,
    // Nodes with a least time, held or let go: what an orderly close waits for.
    kept: Mutex<Vec<Weak<dyn Node>>>,
}

impl Departures {
    /// Starts the background task on the current runtime.
    pub(crate) fn start(backend: Arc<dyn Backend>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pending = Arc::new(Pending::default());
        let runtime = Handle::current();
        runtime.spawn(work(backend, receiver));
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

    /// Waits until the least time of every hold is over.
    pub(crate) async fn kept_out(&self) {
        loop {
            let next = {
                let mut kept = self.pending.kept.lock();
                kept.retain(|node| {
                    node.upgrade().is_some_and(|node| node.state().is_kept() && node.state().lost().is_none())
                });
                // It stays in the list: whoever closes beside waits for it too.
                kept.first().and_then(Weak::upgrade)
            };
            let Some(node) = next else { return };
            kept_out(&*node).await;
        }
    }

    /// Waits until no departure from `queue` is pending.
    pub(crate) async fn settled(&self, queue: &Address) {
        self.wait(|queues| !queues.contains_key(queue)).await;
    }

    /// Waits until no departure at all is pending.
    pub(crate) async fn all_settled(&self) {
        self.wait(HashMap::is_empty).await;
    }

    async fn wait(&self, done: impl Fn(&HashMap<Address, usize>) -> bool) {
        // What nearly always holds costs one look.
        if done(&self.pending.queues.lock()) {
            return;
        }
        loop {
            let notified = self.pending.settled.notified();
            tokio::pin!(notified);
            notified.as_mut().enable();
            if done(&self.pending.queues.lock()) {
                return;
            }
            notified.await;
        }
    }
}

impl Pending {
    fn done(&self, queue: &Address) {
        let mut queues = self.queues.lock();
        if let Some(count) = queues.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                queues.remove(queue);
            }
        }
        drop(queues);
        self.settled.notify_waiters();
    }
}

async fn work(backend: Arc<dyn Backend>, mut receiver: mpsc::UnboundedReceiver<Underway>) {
    let (mut running, mut refused) = (JoinSet::new(), JoinSet::new());
    loop {
        tokio::select! {
            biased;
            underway = receiver.recv() => {
                let Some(mut underway) = underway else { break };
                let backend = Arc::clone(&backend);
                running.spawn(async move {
                    underway.due().await;
                    let outcome = settle(&*backend, &underway.departure).await;
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

/// Carries a departure out, again and again: until it is confirmed, refused, or moot.
pub(crate) async fn settle(backend: &dyn Backend, departure: &Departure) -> Result<()> {
    let clock = backend.lease().clock().clone();
    let mut pauses = Pauses::new(Duration::from_millis(20), Duration::from_secs(1));
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
