//! The acquisition of an owner: a task in the background owns it, and the owner's tasks wait for its end.
//!
//! *Why.* In the future of the task that began it, it would stand still while nobody polls that one (in a `select!`, say), and
//! with it each task of the owner that came later: the owner would wait for itself, on a free lock (RULES D4). It runs on the
//! coordinator's runtime instead, as long as anybody waits for it.
//!
//! *Protocol.* Whoever waits is counted in the ledger from the start, and holds from the admission on. Who waits no more gives that
//! back like a hold. When nobody waits any more the task finds that, and drops its attempt, which is cleaned up like any other; a node
//! that was admitted meanwhile is nobody's, and is given back. Only then may the owner acquire anew: a try that comes right
//! behind would meet what is left of it, and be refused.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::Instrument;

use super::ledger::{Generation, Left, Mode, Progress};
use super::owners::OwnedKey;
use crate::attempt::{OnQueue, late, unanswered, unproven};
use crate::clock::Moment;
use crate::contracts::{LeaseState, Patience};
use crate::coordinator::Coordinator;
use crate::error::{Error, ErrorKind, Result};
use crate::holding::Holding;

/// What one task waits for at most.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) deadline: Moment,
    pub(crate) patience: Patience,
    pub(crate) fail_fast: bool,
}

/// A task of an owner that waits for an acquisition. Dropped, it waits no more.
pub(super) struct Waiting {
    coordinator: Coordinator,
    key: OwnedKey,
    generation: Generation,
    // `None`: it is not counted, and does not hold at the end.
    mode: Option<Mode>,
    // Of the one that began it: what it came to where it was not admitted.
    answer: Option<oneshot::Receiver<Result<Waited>>>,
}

/// What a wait came to.
pub(super) enum Waited {
    Held(Generation, Arc<Holding>),
    /// A try that would have to wait for others.
    Refused,
    /// Enter again.
    Over,
}

impl Waiting {
    /// For an acquisition that is under way.
    pub(super) fn join(
        coordinator: &Coordinator,
        key: &OwnedKey,
        generation: Generation,
        mode: Mode,
    ) -> Self {
        let mut waiting = Self::later(coordinator, key, generation);
        waiting.mode = Some(mode);
        waiting
    }

    /// For one under way that would not do.
    pub(super) fn later(coordinator: &Coordinator, key: &OwnedKey, generation: Generation) -> Self {
        let (coordinator, key) = (coordinator.clone(), key.clone());
        Self { coordinator, key, generation, mode: None, answer: None }
    }

    /// For one that begins now. Where it is refused, fails or is late, that is this one's answer: it was made of its request.
    pub(super) fn begin<F>(
        coordinator: &Coordinator,
        key: &OwnedKey,
        generation: Generation,
        mode: Mode,
        acquire: impl FnOnce(OnQueue) -> F,
    ) -> Self
    where
        F: Future<Output = Result<Option<Holding>>> + Send + 'static,
    {
        let mut waiting = Self::join(coordinator, key, generation, mode);
        let acquiring = Acquiring { coordinator: coordinator.clone(), key: key.clone(), generation };
        let acquire = acquire(acquiring.on_queue());
        let (sender, answer) = oneshot::channel();
        let work = async move {
            let answer = tokio::select! {
                biased;
                answer = acquire => answer,
                // What it has asked for is taken back here, and given up behind that.
                () = acquiring.unwanted() => return,
            };
            let answer = answer.map(|holding| match holding {
                Some(holding) => acquiring.done(holding),
                None => Waited::Refused,
            });
            drop(acquiring);
            // Who began it may have left it to others, who enter again.
            let _ = sender.send(answer);
        };
        coordinator.departures().beside(work.in_current_span());
        waiting.answer = Some(answer);
        waiting
    }

    /// Waits for its end.
    pub(super) async fn outcome(mut self, bounds: Bounds) -> Result<Waited> {
        let Bounds { deadline, patience, fail_fast } = bounds;
        let (owners, clock) = (self.coordinator.owners(), self.coordinator.clock());
        let began = self.answer.is_some();
        // The task keeps the deadline of who began it, and says why it came; unless nobody drives its runtime.
        let deadline = if began { deadline + self.coordinator.request_timeout() } else { deadline };
        let ended = owners.until(&self.key, self.generation, |progress| match progress {
            // Where it waits for others, a try would too.
            Progress::Acquiring { queued: true } if patience == Patience::Try && !began => {
                Some(Waited::Refused)
            }
            Progress::Acquiring { .. } | Progress::Unwanted => None,
            Progress::Held(holding) => Some(Waited::Held(self.generation, holding)),
            Progress::Over => Some(Waited::Over),
        });
        let waited = tokio::select! {
            biased;
            waited = ended => waited,
            // Who began it hears that from its task.
            error = unanswered(self.coordinator.backend(), fail_fast && !began) => return Err(error),
            () = clock.sleep_until(deadline) => return Err(self.late(patience)),
            () = self.undriven() => return Err(self.late(patience)),
        };
        match (waited, self.answer.take()) {
            // In one that is lost nobody enters.
            (Waited::Held(_, holding), _) if holding.tenure.check().is_err() => Ok(Waited::Over),
            // From here on it is the caller's to give back.
            (waited @ Waited::Held(..), _) => {
                Ok(if self.mode.take().is_some() { waited } else { Waited::Over })
            }
            (Waited::Over, Some(answer)) => answer.await.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Unavailable, "the acquisition's task died, or its runtime"))
            }),
            (waited, _) => Ok(waited),
        }
    }
}

impl Waiting {
    /// Waits until nobody can be driving the task: the lease is not renewed, and the task would have given up on a silent server.
    async fn undriven(&self) {
        let (lease, clock) = (self.coordinator.lease(), self.coordinator.clock());
        let patience = lease.ttl().saturating_add(self.coordinator.request_timeout().saturating_mul(2));
        let mut end = clock.now() + patience;
        while clock.now() < end {
            clock.sleep_until(end).await;
            // That of one which connects lazily says nothing yet, and the task's own bounds do.
            end = lease.deadline() + patience;
        }
    }

    /// Its deadline has passed: others hold, as far as was answered, or nobody answers.
    fn late(&self, patience: Patience) -> Error {
        let queued = matches!(
            self.coordinator.owners().progress(&self.key, self.generation),
            Progress::Acquiring { queued: true }
        );
        let state = if queued { self.coordinator.lease().state() } else { LeaseState::Suspended };
        late(patience, unproven(state))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            give_back(&self.coordinator.owners().leave(&self.key, self.generation, mode));
        }
    }
}

/// Carries out, in the background, what a release means for the node.
pub(super) fn give_back(left: &Left<Arc<Holding>>) {
    match left {
        Left::Last(node) => node.let_go(),
        Left::Downgrade(node) => node.downgrade_later(),
        Left::Remaining | Left::Unwanted | Left::Stale => {}
    }
}

/// The task's side. Dropped before it is done, with its runtime even, whoever waits enters again.
struct Acquiring {
    coordinator: Coordinator,
    key: OwnedKey,
    generation: Generation,
}

impl Acquiring {
    /// Tells the owner's tasks that it waits behind others.
    fn on_queue(&self) -> OnQueue {
        let (coordinator, key, generation) = (self.coordinator.clone(), self.key.clone(), self.generation);
        OnQueue::new(move || coordinator.owners().queued(&key, generation))
    }

    fn done(&self, holding: Holding) -> Waited {
        // Where nobody waits any more it is dropped here, which gives it back.
        self.coordinator.owners().acquired(&self.key, self.generation, Arc::new(holding));
        // Said only to one who finds that it is over since: it was lost, and another has entered.
        Waited::Over
    }

    async fn unwanted(&self) {
        let unwanted = |progress| matches!(progress, Progress::Unwanted).then_some(());
        self.coordinator.owners().until(&self.key, self.generation, unwanted).await;
    }
}

impl Drop for Acquiring {
    fn drop(&mut self) {
        // Does nothing once it is done: the entry is no acquisition any more.
        self.coordinator.owners().gave_up(&self.key, self.generation);
    }
}
