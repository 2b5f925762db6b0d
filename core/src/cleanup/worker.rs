//! A client's tasks share its connection with the renewals of its holds. The leaves of twenty thousand
//! dropped guards would delay a renewal past its lease, so only a few tasks run at a time. A task that a join
//! waits for goes first.
//!
//! A task that pauses between two tries takes no place, because one of several servers may be away during a
//! failover. Repeated tries take at most half of the places.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::DropGuard;

use super::in_flight::InFlight;
use super::pending::Pending;
use super::task::{Task, pauses};
use crate::contracts::{Backend, Close};
use crate::decide::LEAVES_AT_ONCE;
use crate::decide::life::AfterTry;
use crate::support::{Backoff, Pauses};

const INSISTING: usize = 8;
const REPEATED: usize = LEAVES_AT_ONCE / 2;
/// A repeated try keeps its place for this time, so a server that refuses at once gets about 300 requests a
/// second.
const PACE: Duration = Duration::from_millis(100);

struct Due {
    in_flight: InFlight,
    pauses: Backoff,
}

enum TaskTried {
    Settled,
    /// No acquisition or close waits for this task any more.
    Refused(Task),
    /// A repeated try has a place.
    Again(Due, Option<OwnedSemaphorePermit>),
}

pub(super) struct Worker {
    backend: Arc<dyn Backend>,
    request_timeout: Duration,
    pending: Arc<Pending>,
    // Tasks whose node is in its `min_hold`.
    kept: JoinSet<InFlight>,
    waiting: BTreeMap<u64, InFlight>,
    running: JoinSet<TaskTried>,
    repeated: Arc<Semaphore>,
    // Tasks that pause, then tasks whose pause is over.
    pausing: JoinSet<Due>,
    again: VecDeque<Due>,
    refused: JoinSet<()>,
    insisting: Arc<Semaphore>,
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
            repeated: Arc::new(Semaphore::new(REPEATED)),
            pausing: JoinSet::new(),
            again: VecDeque::new(),
            refused: JoinSet::new(),
            insisting: Arc::new(Semaphore::new(INSISTING)),
            _resident: resident,
        }
    }

    pub(super) async fn work(mut self, mut receiver: mpsc::UnboundedReceiver<InFlight>) {
        let mut open = true;
        while open || !self.is_idle() {
            tokio::select! {
                biased;
                in_flight = receiver.recv(), if open => match in_flight {
                    Some(in_flight) => self.take(in_flight),
                    None => open = false,
                },
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => self.ended(ended),
                Some(due) = self.pausing.join_next(), if !self.pausing.is_empty() => self.again.extend(due),
                Some(due) = self.kept.join_next(), if !self.kept.is_empty() => {
                    if let Ok(in_flight) = due {
                        self.take(in_flight);
                    }
                }
                Some(_) = self.refused.join_next(), if !self.refused.is_empty() => {}
            }
            self.begin();
        }
        // LEASE-CLOSE. The close also removes nodes whose removal the server refuses.
        drop(self.refused);
        if let Err(error) = self.backend.close(Close::Orderly).await {
            tracing::debug!(%error, "a dropped coordinator could not be closed; its locks are free when the lease ends");
        }
    }

    fn is_idle(&self) -> bool {
        let under_way = self.running.len() + self.pausing.len() + self.again.len();
        self.kept.is_empty() && self.waiting.is_empty() && under_way == 0
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

    fn begin(&mut self) {
        while self.running.len() < LEAVES_AT_ONCE {
            let Some((due, place)) = self.next() else { return };
            self.running.spawn(try_once(Arc::clone(&self.backend), due, place));
        }
    }

    fn next(&mut self) -> Option<(Due, Option<OwnedSemaphorePermit>)> {
        if !self.again.is_empty()
            && let Ok(place) = Arc::clone(&self.repeated).try_acquire_owned()
        {
            return self.again.pop_front().map(|due| (due, Some(place)));
        }
        let number = self.pending.first_wanted().or_else(|| self.waiting.keys().next().copied())?;
        let in_flight = self.waiting.remove(&number)?;
        self.pending.begun(in_flight.task.queue(), number);
        Some((Due { in_flight, pauses: pauses(self.request_timeout) }, None))
    }

    fn ended(&mut self, ended: std::result::Result<TaskTried, JoinError>) {
        match ended {
            // A task that panicked in a driver is not pending any more.
            Ok(TaskTried::Settled) | Err(_) => {}
            Ok(TaskTried::Again(mut due, place)) => {
                let clock = self.backend.lease().clock().clone();
                self.pausing.spawn(async move {
                    let (began, pause) = (clock.now(), due.pauses.next());
                    clock.sleep_until(began + pause.min(PACE)).await;
                    drop(place);
                    clock.sleep_until(began + pause).await;
                    due
                });
            }
            Ok(TaskTried::Refused(task)) => {
                let (backend, insisting) = (Arc::clone(&self.backend), Arc::clone(&self.insisting));
                self.refused.spawn(async move { insist(&*backend, &insisting, &task).await });
            }
        }
    }
}

async fn try_once(backend: Arc<dyn Backend>, due: Due, place: Option<OwnedSemaphorePermit>) -> TaskTried {
    let (next, answer) = due.in_flight.task.attempt(&*backend).await;
    match next {
        AfterTry::Again => TaskTried::Again(due, place),
        AfterTry::Done => TaskTried::Settled,
        AfterTry::Insist => {
            let task = due.in_flight.task.clone();
            if let Err(error) = &answer {
                tracing::debug!(?task, %error, "the server refused a clean-up, or did not confirm it within the lease");
            }
            TaskTried::Refused(task)
        }
    }
}

/// The refusal may end: a full server gets space, a user gets its role again. Without a retry the node could
/// block the queue as long as this process lives.
async fn insist(backend: &dyn Backend, insisting: &Semaphore, task: &Task) {
    let clock = backend.lease().clock().clone();
    // The node of such a task lives as long as the shared lease.
    let on_one_lease =
        matches!(task, Task::Abandon { .. } | Task::Late(_)) && !backend.capabilities().lease_per_node;
    let mut backoff = Backoff::new(Pauses::BACKGROUND);
    while on_one_lease || !task.is_obsolete(clock.now()) {
        backoff.wait(&clock).await;
        let Ok(_permit) = insisting.acquire().await else { return };
        match task.attempt(backend).await {
            (AfterTry::Done, _) => return,
            (_, answer) => tracing::debug!(?task, ?answer, "the server still refuses a clean-up"),
        }
    }
}
