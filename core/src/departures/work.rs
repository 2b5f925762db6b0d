//! The background task: takes departures as they come, and carries out a few at a time.
//!
//! *Why a few.* All requests of a client share its connection with the renewals of what it still holds. Of twenty thousand guards
//! that are dropped at once, so many leaves would stand before the next renewal, and take its lease's time. What waits here
//! costs no request, and nobody's time: whoever waits for a departure has it carried out next.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::task::{JoinError, JoinSet};

use super::departure::{Departure, is_over, settle};
use super::pending::Pending;
use super::underway::Underway;
use crate::contracts::{Backend, Close};
use crate::error::Result;
use crate::pauses::Pauses;
use crate::runtime::Resident;

/// Departures on their way at once: as many as keep a server busy, and no more.
const AT_ONCE: usize = 64;
/// Of those that were refused, tries at once.
const INSISTING: usize = 8;

pub(super) struct Worker {
    backend: Arc<dyn Backend>,
    request_timeout: Duration,
    pending: Arc<Pending>,
    // Nodes whose least time is not over.
    kept: JoinSet<Underway>,
    // By their numbers.
    waiting: BTreeMap<u64, Underway>,
    running: JoinSet<Option<Departure>>,
    refused: JoinSet<()>,
    insisting: Arc<Semaphore>,
    // Dropped with this task, and so with its runtime.
    _resident: Resident,
}

impl Worker {
    pub(super) fn new(
        backend: Arc<dyn Backend>,
        request_timeout: Duration,
        pending: Arc<Pending>,
        resident: Resident,
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

    /// Until nobody sends any more, and what was sent is settled.
    pub(super) async fn work(mut self, mut receiver: mpsc::UnboundedReceiver<Underway>) {
        let mut open = true;
        while open || !(self.kept.is_empty() && self.waiting.is_empty() && self.running.is_empty()) {
            tokio::select! {
                biased;
                underway = receiver.recv(), if open => match underway {
                    Some(underway) => self.take(underway),
                    None => open = false,
                },
                Some(ended) = self.running.join_next(), if !self.running.is_empty() => self.ended(ended),
                Some(due) = self.kept.join_next(), if !self.kept.is_empty() => {
                    if let Ok(underway) = due {
                        self.take(underway);
                    }
                }
                // Reaped so that the set does not grow.
                Some(_) = self.refused.join_next(), if !self.refused.is_empty() => {}
            }
            self.begin();
        }
        // All handles are gone: dropping a coordinator gives everything back, in the background (LEASE-CLOSE). What is
        // refused still, the close gives back too.
        drop(self.refused);
        if let Err(error) = self.backend.close(Close::Orderly).await {
            tracing::debug!(%error, "a dropped coordinator was not closed in order; its lease runs out");
        }
    }

    fn take(&mut self, mut underway: Underway) {
        match underway.number {
            Some(number) => {
                self.pending.ready(underway.departure.queue(), number);
                self.waiting.insert(number, underway);
            }
            None => drop(self.kept.spawn(async move {
                underway.due().await;
                underway
            })),
        }
    }

    /// Begins the next ones, as far as there is room.
    fn begin(&mut self) {
        while self.running.len() < AT_ONCE {
            let wanted = self.pending.first_wanted();
            let Some(number) = wanted.or_else(|| self.waiting.keys().next().copied()) else { return };
            let Some(underway) = self.waiting.remove(&number) else { return };
            self.pending.begun(underway.departure.queue(), number);
            self.running.spawn(carry_out(Arc::clone(&self.backend), underway, self.request_timeout));
        }
    }

    fn ended(&mut self, ended: std::result::Result<Option<Departure>, JoinError>) {
        // One that died, by a panic in a driver, counts no more.
        if let Ok(Some(departure)) = ended {
            let (backend, insisting) = (Arc::clone(&self.backend), Arc::clone(&self.insisting));
            self.refused.spawn(async move { insist(&*backend, &insisting, &departure).await });
        }
    }
}

/// Answers what was refused.
async fn carry_out(
    backend: Arc<dyn Backend>,
    mut underway: Underway,
    request_timeout: Duration,
) -> Option<Departure> {
    let outcome: Result<()> = settle(&*backend, &mut underway.departure, request_timeout).await;
    let refused = outcome.as_ref().is_err_and(|error| !is_over(error));
    if let Departure::Leave { node, .. } = &underway.departure {
        node.state().depart(underway.departure.told(outcome));
    }
    // From here on nobody waits for it.
    refused.then(|| underway.departure.clone())
}

/// Carries out, seldom, what was refused. A refusal may end (a full server gets space, a user its role again), while the
/// lease that the node hangs on may live as long as this process: until then the node stands in everybody's way.
async fn insist(backend: &dyn Backend, insisting: &Semaphore, departure: &Departure) {
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
        let Ok(_turn) = insisting.acquire().await else { return };
        match departure.carry_out(backend).await {
            Ok(()) => return,
            Err(error) if is_over(&error) => return,
            Err(error) => tracing::debug!(?departure, %error, "a departure is refused still"),
        }
    }
}
