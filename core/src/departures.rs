//! Nodes on their way out: what a dropped guard or a dropped acquire left behind is taken back here, in
//! the background, again and again until it is confirmed or its lease is lost (NODE-CANCEL, NODE-LEAVE-OWN). What the server
//! refuses is reported at once, nobody waits for it, and it is tried on all the same, seldom.
//!
//! A join waits until this client's own departures from that queue are settled that were pending when it came (RULES A18), so
//! that `drop(guard)` and then `try_acquire` by the same client succeeds on every backend. Who departs after it is not its
//! matter: where many of one client come and go there may always be one. A node that is kept for a least time
//! (`hold_at_least`) departs when that is over, and is nobody's departure before: a join meets it in the queue.

mod departure;
mod pending;
mod underway;
mod work;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;

pub(crate) use self::departure::{Departure, is_over, settle};
use self::pending::Pending;
use self::underway::Underway;
use self::work::Worker;
use crate::address::Address;
use crate::contracts::{Backend, Node};
use crate::runtime::HomeRuntime;

/// The background task's address. When the last clone is dropped, the task settles what is left and closes the backend.
#[derive(Clone, Debug)]
pub(crate) struct Departures {
    sender: mpsc::UnboundedSender<Underway>,
    pending: Arc<Pending>,
    runtime: Handle,
    home: HomeRuntime,
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
