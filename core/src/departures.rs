//! Nodes on their way out: what a dropped guard or a dropped acquire left behind is taken back here, in
//! the background, again and again until it is confirmed or its lease is lost (NODE-CANCEL, NODE-LEAVE-OWN).
//!
//! A join waits until this client's own departures from that queue are settled (RULES A18), so that
//! `drop(guard)` and then `try_acquire` by the same client succeeds on every backend.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Backend, Close, Join, Node};
use crate::error::Result;

/// What is to be taken back.
pub(crate) enum Departure {
    /// A node that is known.
    Leave(Address, Arc<dyn Node>),
    /// An attempt whose outcome is unknown, and the instant after which its lease has taken it anyway.
    Abandon(Join, Moment),
}

impl Departure {
    fn queue(&self) -> &Address {
        match self {
            Departure::Leave(queue, _) => queue,
            Departure::Abandon(join, _) => &join.queue,
        }
    }

    /// Whether there is nothing left to take back: the server has forgotten it by itself.
    fn is_moot(&self, now: Moment) -> bool {
        match self {
            // The margin and more have passed on the server too when our own deadline lies a TTL behind.
            Departure::Leave(_, node) => {
                let lease = node.state().lease();
                now >= lease.deadline() + lease.ttl()
            }
            Departure::Abandon(_, moot) => now >= *moot,
        }
    }

    async fn carry_out(&self, backend: &dyn Backend) -> Result<()> {
        match self {
            Departure::Leave(_, node) => node.leave().await,
            Departure::Abandon(join, _) => backend.abandon(join).await,
        }
    }
}

impl fmt::Debug for Departure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Departure::Leave(queue, node) => write!(f, "Leave({queue:?}, {node:?})"),
            Departure::Abandon(join, _) => write!(f, "Abandon({:?}, {})", join.queue, join.id),
        }
    }
}

/// The background task's address. When the last clone is dropped, the task settles what is left and closes the backend.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    sender: mpsc::UnboundedSender<Underway>,
    pending: Arc<Pending>,
}

/// A departure that counts as pending until it is dropped: settled, or lost with its task (a panic in a
/// driver) or its runtime. Whoever waits for it must not wait for ever.
struct Underway {
    departure: Departure,
    pending: Arc<Pending>,
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.pending.done(self.departure.queue());
    }
}

#[derive(Debug, Default)]
struct Pending {
    queues: Mutex<HashMap<Address, usize>>,
    settled: Notify,
}

impl Departures {
    /// Starts the background task on the current runtime.
    pub(crate) fn start(backend: Arc<dyn Backend>) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pending = Arc::new(Pending::default());
        tokio::spawn(work(backend, receiver));
        Self { sender, pending }
    }

    /// Queues a departure. Never blocks, needs no runtime.
    pub(crate) fn push(&self, departure: Departure) {
        *self.pending.queues.lock().entry(departure.queue().clone()).or_default() += 1;
        let underway = Underway { departure, pending: Arc::clone(&self.pending) };
        if self.sender.send(underway).is_err() {
            tracing::debug!("a departure after the end of its runtime; the lease takes the node back");
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
    let mut running = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            biased;
            underway = receiver.recv() => {
                let Some(underway) = underway else { break };
                let backend = Arc::clone(&backend);
                running.spawn(async move {
                    let outcome = settle(&*backend, &underway.departure).await;
                    if let Departure::Leave(_, node) = &underway.departure {
                        node.state().depart(outcome);
                    }
                });
            }
            // Reaped so that the set does not grow.
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
    while running.join_next().await.is_some() {}
    // All handles are gone: dropping a coordinator gives everything back, in the background (LEASE-CLOSE).
    if let Err(error) = backend.close(Close::Orderly).await {
        tracing::debug!(%error, "a dropped coordinator was not closed in order; its lease runs out");
    }
}

/// Carries a departure out, again and again: until it is confirmed, refused, or moot.
async fn settle(backend: &dyn Backend, departure: &Departure) -> Result<()> {
    let clock = backend.lease().clock().clone();
    let mut delays = ExponentialBuilder::default()
        .with_min_delay(Duration::from_millis(20))
        .with_max_delay(Duration::from_secs(1))
        .without_max_times()
        .with_jitter()
        .build();
    while let Err(error) = departure.carry_out(backend).await {
        if !error.is_retryable() {
            tracing::debug!(?departure, %error, "a departure was refused; the lease takes it back");
            return Err(error);
        }
        if departure.is_moot(clock.now()) {
            tracing::debug!(?departure, %error, "a departure was not confirmed within its lease");
            return Err(error);
        }
        let delay = delays.next().unwrap_or(Duration::from_secs(1));
        clock.sleep_until(clock.now() + delay).await;
    }
    Ok(())
}
