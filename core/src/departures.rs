//! Nodes on their way out: what a dropped guard or a dropped acquire left behind is taken back here, in
//! the background, again and again until it is confirmed or its lease is lost (NODE-CANCEL, NODE-LEAVE-OWN). What the server
//! refuses is reported at once, nobody waits for it, and it is tried on all the same, seldom.
//!
//! A join waits until this client's own departures from that queue are settled that were pending when it came (RULES A18), so
//! that `drop(guard)` and then `try_acquire` by the same client succeeds on every backend. Who departs after it is not its
//! matter: where many of one client come and go there may always be one. A node that is kept for a least time
//! (`hold_at_least`) departs when that is over, and is nobody's departure before: a join meets it in the queue.

mod pending;
mod work;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

use self::pending::Pending;
use self::work::Worker;
use crate::address::Address;
use crate::clock::Moment;
use crate::contracts::{Backend, Join, Leave, Node};
use crate::error::{Error, ErrorKind, Result};
use crate::pauses::Pauses;
use crate::runtime::HomeRuntime;

/// What is to be taken back.
#[derive(Clone)]
pub(crate) enum Departure {
    /// A node that is known. `asked`: a request may have removed it, whose reply was lost.
    Leave { queue: Address, node: Arc<dyn Node>, asked: bool },
    /// A writer's node of which a reader's remains: `at_once`, or when the node's least time is over.
    Downgrade { queue: Address, node: Arc<dyn Node>, at_once: bool },
    /// An attempt whose outcome is unknown, and the instant after which its lease has taken it anyway.
    Abandon(Join, Moment),
}

impl Departure {
    fn queue(&self) -> &Address {
        match self {
            Departure::Leave { queue, .. } | Departure::Downgrade { queue, .. } => queue,
            Departure::Abandon(join, _) => &join.queue,
        }
    }

    /// A try of it has failed: a request may have been carried out though, unless it was surely not sent.
    pub(crate) fn failed(&mut self, error: &Error) {
        if let Departure::Leave { asked, .. } = self {
            *asked |= error.kind() != &ErrorKind::Unavailable;
        }
    }

    /// What its end tells: who finds nothing there behind a request without an answer does not know whose hand that was.
    pub(crate) fn told(&self, outcome: Result<()>) -> Result<()> {
        match (self, outcome) {
            (Departure::Leave { asked: true, .. }, Err(error)) if error.lost_reason().is_some() => {
                let why =
                    "it is given back, but a reply was lost: whether it was held until then is not known";
                Err(Error::new(ErrorKind::Unknown, why))
            }
            (_, outcome) => outcome,
        }
    }

    /// Whether there is nothing left to take back: the server has forgotten it by itself.
    fn is_moot(&self, now: Moment) -> bool {
        match self {
            // The margin and more have passed on the server too when our own deadline lies a TTL behind.
            Departure::Leave { node, .. } | Departure::Downgrade { node, .. } => {
                let lease = node.state().lease();
                now >= lease.deadline() + lease.ttl()
            }
            Departure::Abandon(_, moot) => now >= *moot,
        }
    }

    /// Once. One that is not there any more is `Lost`.
    async fn carry_out(&self, backend: &dyn Backend) -> Result<()> {
        match self {
            Departure::Leave { node, .. } => match node.leave().await? {
                Leave::Removed => Ok(()),
                Leave::Absent(reason) => Err(Error::lost(reason)),
            },
            Departure::Downgrade { node, .. } => node.downgrade().await,
            Departure::Abandon(join, _) => backend.abandon(join).await,
        }
    }

    /// The node that is not to be given back yet.
    fn kept(&self) -> Option<Arc<dyn Node>> {
        match self {
            Departure::Leave { node, .. } | Departure::Downgrade { node, at_once: false, .. } => {
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
            Departure::Leave { queue, node, .. } => write!(f, "Leave({queue:?}, {node:?})"),
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
    home: HomeRuntime,
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
            self.number = Some(self.pending.add(self.departure.queue()));
            if let Departure::Leave { node, .. } = &self.departure {
                node.state().let_go();
            }
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

impl Departures {
    /// Starts the background task on the current runtime.
    pub(crate) fn start(backend: Arc<dyn Backend>, request_timeout: Duration) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pending = Arc::new(Pending::default());
        let runtime = Handle::current();
        let home = HomeRuntime::default();
        let worker = Worker::new(backend, request_timeout, Arc::clone(&pending), home.resident());
        runtime.spawn(worker.work(receiver));
        Self { sender, pending, runtime, home }
    }

    /// Whether the runtime is there that the background task lives on.
    pub(crate) fn home(&self) -> &HomeRuntime {
        &self.home
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
        self.pending.keep(node);
    }

    /// Waits until the least time of every hold is over that there is now. (Others may begin meanwhile, without end.)
    pub(crate) async fn kept_out(&self) {
        self.pending.kept_out().await;
    }

    /// Waits until no departure from `queue` is pending that is pending now.
    pub(crate) async fn settled(&self, queue: &Address) {
        self.pending.settled(Some(queue)).await;
    }

    /// Waits until no departure at all is pending that is pending now.
    pub(crate) async fn all_settled(&self) {
        self.pending.settled(None).await;
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
    departure: &mut Departure,
    request_timeout: Duration,
) -> Result<()> {
    let clock = backend.lease().clock().clone();
    let first = Duration::from_millis(20);
    // With their jitter up to half of that time.
    let mut pauses = Pauses::new(first, (request_timeout / 4).clamp(first, Duration::from_secs(1)));
    while let Err(error) = departure.carry_out(backend).await {
        if is_over(&error) {
            return Err(error);
        }
        if !error.is_retryable() {
            tracing::debug!(?departure, %error, "a departure was refused");
            return Err(error);
        }
        departure.failed(&error);
        if departure.is_moot(clock.now()) {
            tracing::debug!(?departure, %error, "a departure was not confirmed within its lease");
            return Err(error);
        }
        pauses.pause(&clock).await;
    }
    Ok(())
}
