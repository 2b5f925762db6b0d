//! The background worker: takes tasks as they come, and carries out a few at a time.
//!
//! *Why a few.* A client's requests share its connection with the renewals of what it still holds.
//! If twenty thousand guards are dropped at once, their leaves would delay the next renewal past
//! its lease. A task that waits here costs no request, and one that an acquisition waits for goes
//! first.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::DropGuard;

use super::in_flight::InFlight;
use super::pending::Pending;
use super::task::{Task, settle};
use crate::contracts::{Backend, Close};
use crate::decide::LEAVES_AT_ONCE;
use crate::decide::life::AfterTry;
use crate::support::Backoff;

/// Concurrent retries of refused tasks.
const INSISTING: usize = 8;

pub(super) struct Worker {
    backend: Arc<dyn Backend>,
    request_timeout: Duration,
    pending: Arc<Pending>,
    // Tasks whose node still has its least time.
    kept: JoinSet<InFlight>,
    // Ready tasks, by number.
    waiting: BTreeMap<u64, InFlight>,
    running: JoinSet<Option<Task>>,
    refused: JoinSet<()>,
    insisting: Arc<Semaphore>,
    // Dropped with this task, and so with its runtime.
    _resident: DropGuard,
}

impl Worker {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        request_timeout: Duration,
        pending: Arc<Pending>,
        resident: DropGuard,
    ) -> Self {
        Self {
            backend,
            request_timeout,
            pending,
            kept: JoinSet::new(),
            waiting: BTreeMap::new(),
            running: JoinSet::new(),
            refused: JoinSet::new(),
            insisting: Arc::new(Semaphore::new(INSISTING)),
            _resident: resident,
        }
    }

    /// Works until all senders are gone and all tasks are settled.
    pub(super) async fn work(mut self, mut receiver: mpsc::UnboundedReceiver<InFlight>) {
        let mut open = true;
        while open || !(self.kept.is_empty() && self.waiting.is_empty() && self.running.is_empty()) {
            tokio::select! {
                biased;
                in_flight = receiver.recv(), if open => match in_flight {
                    Some(in_flight) => self.take(in_flight),
                    None => open = false,
                },
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => self.ended(ended),
                Some(due) = self.kept.join_next(), if !self.kept.is_empty() => {
                    if let Ok(in_flight) = due {
                        self.take(in_flight);
                    }
                }
                // Reaped so that the set does not grow.
                Some(_) = self.refused.join_next(), if !self.refused.is_empty() => {}
            }
            self.begin();
        }
        // All handles are gone: a dropped coordinator gives everything back in the background
        // (LEASE-CLOSE). The close also removes what the server still refuses.
        drop(self.refused);
        if let Err(error) = self.backend.close(Close::Orderly).await {
            tracing::debug!(%error, "a dropped coordinator was not closed in order; its lease runs out");
        }
    }

    fn take(&mut self, mut in_flight: InFlight) {
        match in_flight.number {
            Some(number) => {
                self.pending.ready(in_flight.task.queue(), number);
                self.waiting.insert(number, in_flight);
            }
            None => drop(self.kept.spawn(async move {
                in_flight.due().await;
                in_flight
            })),
        }
    }

    /// Begins as many tasks as there is room for.
    fn begin(&mut self) {
        while self.running.len() < LEAVES_AT_ONCE {
            let wanted = self.pending.first_wanted();
            let Some(number) = wanted.or_else(|| self.waiting.keys().next().copied()) else { return };
            let Some(in_flight) = self.waiting.remove(&number) else { return };
            self.pending.begun(in_flight.task.queue(), number);
            self.running.spawn(carry_out(Arc::clone(&self.backend), in_flight, self.request_timeout));
        }
    }

    fn ended(&mut self, ended: std::result::Result<Option<Task>, JoinError>) {
        // A task that died (a panic in a driver) no longer counts.
        if let Ok(Some(task)) = ended {
            let (backend, insisting) = (Arc::clone(&self.backend), Arc::clone(&self.insisting));
            self.refused.spawn(async move { insist(&*backend, &insisting, &task).await });
        }
    }
}

/// Returns the task if the server refused it. From then on nothing waits for it.
async fn carry_out(
    backend: Arc<dyn Backend>,
    in_flight: InFlight,
    request_timeout: Duration,
) -> Option<Task> {
    let (next, _) = settle(&*backend, &in_flight.task, request_timeout).await;
    (next == AfterTry::Insist).then(|| in_flight.task.clone())
}

/// Retries a refused task with long delays. A refusal may end (a full server gets space, a user its
/// role again), while the node's lease may live as long as this process and block the queue.
async fn insist(backend: &dyn Backend, insisting: &Semaphore, task: &Task) {
    let clock = backend.lease().clock().clone();
    // If many nodes share one lease, a late join of an abandoned attempt lives as long as that
    // lease.
    let on_one_lease =
        matches!(task, Task::Abandon { .. } | Task::Late(_)) && !backend.capabilities().lease_per_node;
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
    while on_one_lease || !task.is_obsolete(clock.now()) {
        backoff.wait(&clock).await;
        let Ok(_permit) = insisting.acquire().await else { return };
        match task.attempt(backend).await {
            (AfterTry::Done, _) => return,
            (_, answer) => tracing::debug!(?task, ?answer, "the server still refuses a clean-up"),
        }
    }
}
