//! Clean-up in the background: removes the nodes of dropped guards and acquisitions (NODE-CANCEL,
//! NODE-LEAVE-OWN). A task is retried until the server confirms it or the lease is lost. After a refusal
//! waiters continue, and the retries become rare.
//!
//! A join first waits for the pending tasks of its client on the same queue (QUEUE-LEAVE-BEFORE-JOIN). See
//! `docs/protocol/cleanup.md`.

mod in_flight;
mod late_join;
mod pending;
mod task;
mod worker;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use self::in_flight::InFlight;
pub(crate) use self::late_join::LateJoin;
use self::pending::Pending;
pub(crate) use self::task::{Task, leave, settle};
use self::worker::Worker;
use crate::address::Address;
use crate::contracts::{Backend, Node};
use crate::decide::LEAVES_AT_ONCE;
use crate::error::{Error, ErrorKind, Result};
use crate::runtime::HomeRuntime;
use crate::support::{SharedTask, SingleFlight};

pub(crate) const TASK_DIED: &str = "the background task of the request panicked, or its runtime ended";

/// A handle to the background worker. When the last clone is dropped, the worker settles the remaining tasks and
/// closes the backend.
#[derive(Clone, Debug)]
pub(crate) struct Cleanup {
    sender: mpsc::UnboundedSender<InFlight>,
    pending: Arc<Pending>,
    runtime: Handle,
    pub(crate) home: HomeRuntime,
    // Work that follows removals, and removals of nodes that a close has ended.
    tidying: TaskTracker,
    // Queues whose follow-up work has not started.
    followed: Arc<Mutex<HashSet<Address>>>,
    // Cancelled when the end of the lease removes the remaining nodes.
    given_up: CancellationToken,
}

impl Cleanup {
    pub(crate) fn start(backend: Arc<dyn Backend>, request_timeout: Duration) -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        let pending = Arc::new(Pending::default());
        let runtime = Handle::current();
        let home = HomeRuntime::default();
        let worker = Worker::new(backend, request_timeout, Arc::clone(&pending), home.resident());
        runtime.spawn(worker.work(receiver));
        let (tidying, given_up) = (TaskTracker::new(), CancellationToken::new());
        Self { sender, pending, runtime, home, tidying, followed: Arc::default(), given_up }
    }

    /// Spawns work on the worker's runtime, because the caller's runtime may end earlier.
    pub(crate) fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(work);
    }

    pub(crate) fn share<T, F>(&self, flight: &SingleFlight<T>, work: impl FnOnce() -> F) -> SharedTask<T>
    where
        T: Clone + Send + Sync + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        flight.run(&self.runtime, work)
    }

    /// Makes work that another task can continue. On another runtime than the worker's it becomes a task of
    /// the worker's runtime, because its timers would end with the caller's runtime.
    pub(crate) fn at_home<T: Send + 'static>(
        &self,
        work: BoxFuture<'static, Result<T>>,
    ) -> BoxFuture<'static, Result<T>> {
        if Handle::try_current().is_ok_and(|current| current.id() == self.runtime.id()) {
            return work;
        }
        self.driven(work).boxed()
    }

    /// Runs work in a task of the worker's runtime, because work that is not polled must not block others. A
    /// drop aborts it.
    pub(crate) fn driven<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> impl Future<Output = Result<T>> + Send + 'static {
        let task = AbortOnDropHandle::new(self.runtime.spawn(work.in_current_span()));
        let home = self.home.clone();
        let answer = async move {
            task.await
                .unwrap_or_else(|error| Err(Error::new(ErrorKind::OutcomeUnknown, TASK_DIED).because(error)))
        };
        async move { home.last(answer).await }
    }

    /// Spawns work that runs after the pending removals from `queue`. A close waits for it. One work that has
    /// not started yet is enough for several calls.
    pub(crate) fn afterwards(&self, queue: &Address, work: impl Future<Output = ()> + Send + 'static) {
        if !self.followed.lock().insert(queue.clone()) {
            return;
        }
        let (pending, followed, queue) =
            (Arc::clone(&self.pending), Arc::clone(&self.followed), queue.clone());
        let work = async move {
            pending.settled(Some(&queue)).await;
            followed.lock().remove(&queue);
            // Removals that were added during the first wait rely on this work.
            pending.settled(Some(&queue)).await;
            work.await;
        };
        self.tidying.spawn_on(work, &self.runtime);
    }

    pub(crate) fn push(&self, task: Task) {
        if self.sender.send(InFlight::new(task, Arc::clone(&self.pending))).is_err() {
            tracing::debug!(
                "the runtime has ended, so nothing is cleaned up; the end of the lease frees the node"
            );
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        self.pending.count() < LEAVES_AT_ONCE / 2
    }

    /// Adds a node whose `min_hold` starts now.
    pub(crate) fn keep(&self, node: &Arc<dyn Node>) {
        self.pending.keep(node);
    }

    /// Keeps nodes that a close has ended until the backend is closed.
    pub(crate) fn keep_until_closed(&self, ended: Vec<Arc<dyn Node>>) {
        self.pending.keep_until_closed(ended);
    }

    pub(crate) fn closed(&self) {
        self.pending.closed();
    }

    /// Waits for the `min_hold` of every present hold, but not of later holds.
    pub(crate) async fn kept_out(&self) {
        self.pending.kept_out().await;
    }

    pub(crate) async fn settled(&self, queue: &Address) {
        self.pending.settled(Some(queue)).await;
    }

    /// Gives back nodes that a close has ended, in bursts (LEASE-CLOSE-IN-BURSTS). A close waits for it.
    pub(crate) fn give_back(&self, nodes: Vec<(Address, Arc<dyn Node>)>) {
        if nodes.is_empty() {
            return;
        }
        self.pending.put_off(nodes.len());
        let cleanup = self.clone();
        let giving_back = async move {
            for burst in nodes.chunks(LEAVES_AT_ONCE) {
                cleanup.pending.fewer_than(LEAVES_AT_ONCE).await;
                cleanup.pending.taken_on(burst.len());
                burst.iter().filter_map(still_there).for_each(|task| cleanup.push(task));
            }
            cleanup.pending.settled(None).await;
        };
        let given_up = self.given_up.clone();
        let until_given_up = async move {
            tokio::select! {
                // First, because tasks that end with the client make no room for other tasks.
                biased;
                () = given_up.cancelled() => {}
                () = giving_back => {}
            }
        };
        self.tidying.spawn_on(until_given_up, &self.runtime);
    }

    pub(crate) fn count(&self) -> usize {
        self.pending.count() + self.pending.are_put_off()
    }

    /// Waits for all present tasks, for the work after them, and for nodes that are being [given
    /// back](Self::give_back). Returns false after `bound`, or after `patience` without a confirmation. Then
    /// no further node is given back, and the close of the client ends the rest.
    pub(crate) async fn settled_within(&self, bound: Duration, patience: Duration) -> bool {
        let silence = async { while timeout(patience, self.pending.one_settled()).await.is_ok() {} };
        let settled = tokio::select! {
            biased;
            () = self.all_settled() => true,
            () = silence => false,
            () = sleep(bound) => false,
        };
        if !settled {
            self.given_up.cancel();
        }
        settled
    }

    async fn all_settled(&self) {
        self.pending.settled(None).await;
        // A wait for a tracker ends only if the tracker is closed. It still accepts tasks.
        self.tidying.close();
        self.tidying.wait().await;
    }
}

/// Returns the leave of a node that a close has ended, unless the node is released or removed already.
fn still_there((queue, node): &(Address, Arc<dyn Node>)) -> Option<Task> {
    let (task, state) = (Task::leave(queue, node), node.state());
    let obsolete = task.is_obsolete(state.lease().clock().now());
    (state.outcome().is_none() && !obsolete).then_some(task)
}
