//! An owner's acquisition: a background task runs it, and the owner's tasks wait for its end
//! (OWNER-ACQUIRES-IN-BACKGROUND).
//!
//! *Why.* If the acquisition ran in the future of the first task, it would stop while that future is not polled
//! (for example in a `select!`). It would then block every later task of the owner, although the lock is free.
//!
//! *Protocol.* Each waiter is counted in the ledger from its start, holds from the admission on, and returns its
//! count when it is dropped. At zero the background task drops its attempt, which is then cleaned up. Only after
//! that may the owner acquire again, so that a try does not meet its own old node.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tracing::Instrument;

use super::ledger::{Generation, Left, Mode, Progress};
use super::owners::{OwnedKey, Owners};
use crate::attempt::{OnQueue, late, unanswered, unproven};
use crate::clock::Moment;
use crate::contracts::{LeaseState, Patience};
use crate::error::{Error, ErrorKind, Result};
use crate::held_node::HeldNode;

/// The bounds of one task's wait.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) deadline: Moment,
    pub(crate) patience: Patience,
    pub(crate) fail_fast: bool,
}

/// A task of an owner that waits for an acquisition. A drop ends the wait.
pub(super) struct Waiting {
    owners: Arc<Owners>,
    key: OwnedKey,
    generation: Generation,
    // `None` for a waiter that is not counted, and does not hold at the end.
    mode: Option<Mode>,
    // For the task that started the acquisition: its end, if it was not an admission.
    answer: Option<oneshot::Receiver<Result<Waited>>>,
}

/// How a wait ended.
pub(super) enum Waited {
    Held(Generation, Arc<HeldNode>),
    /// A try that would have to wait for other clients.
    Refused,
    /// Enter again.
    Over,
}

impl Waiting {
    /// Waits for a running acquisition.
    pub(super) fn join(owners: &Arc<Owners>, key: &OwnedKey, generation: Generation, mode: Mode) -> Self {
        let mut waiting = Self::later(owners, key, generation);
        waiting.mode = Some(mode);
        waiting
    }

    /// Waits for a running acquisition that does not fit.
    pub(super) fn later(owners: &Arc<Owners>, key: &OwnedKey, generation: Generation) -> Self {
        let (owners, key) = (Arc::clone(owners), key.clone());
        Self { owners, key, generation, mode: None, answer: None }
    }

    /// Starts an acquisition and waits for it. Its refusal, error or deadline is the result of this waiter, because
    /// it has this waiter's options.
    pub(super) fn begin<F>(
        owners: &Arc<Owners>,
        key: &OwnedKey,
        generation: Generation,
        mode: Mode,
        acquire: impl FnOnce(OnQueue) -> F,
    ) -> Self
    where
        F: Future<Output = Result<Option<HeldNode>>> + Send + 'static,
    {
        let mut waiting = Self::join(owners, key, generation, mode);
        let acquiring = Sharing { owners: Arc::clone(owners), key: key.clone(), generation };
        let acquire = acquire(acquiring.on_queue());
        let (sender, answer) = oneshot::channel();
        let work = async move {
            let answer = tokio::select! {
                biased;
                answer = acquire => answer,
                // The attempt is dropped and cleaned up here, and given up after that.
                () = acquiring.unwanted() => return,
            };
            let answer = answer.map(|held| match held {
                Some(held) => acquiring.done(held),
                None => Waited::Refused,
            });
            drop(acquiring);
            // The first task may be gone; the other waiters enter again.
            let _ = sender.send(answer);
        };
        owners.client().cleanup.beside(work.in_current_span());
        waiting.answer = Some(answer);
        waiting
    }

    /// Waits for the end of the acquisition.
    pub(super) async fn outcome(mut self, bounds: Bounds) -> Result<Waited> {
        let Bounds { deadline, patience, fail_fast } = bounds;
        let (client, clock) = (self.owners.client(), self.owners.client().clock());
        let began = self.answer.is_some();
        // The task applies the deadline of the first task, and reports why it passed. The longer wait is for a
        // runtime that no thread drives.
        let deadline = if began { deadline + client.request_timeout } else { deadline };
        let ended = self.owners.until(&self.key, self.generation, |progress| match progress {
            // A try would have to wait for the same clients.
            Progress::Acquiring { queued: true } if patience == Patience::Try && !began => {
                Some(Waited::Refused)
            }
            Progress::Acquiring { .. } | Progress::Unwanted => None,
            Progress::Held(held) => Some(Waited::Held(self.generation, held)),
            Progress::Over => Some(Waited::Over),
        });
        let waited = tokio::select! {
            biased;
            waited = ended => waited,
            // The first task gets this from the background task.
            error = unanswered(&client.backend, fail_fast && !began) => return Err(error),
            () = clock.sleep_until(deadline) => return Err(self.late(patience)),
            () = self.undriven() => return Err(self.late(patience)),
        };
        match (waited, self.answer.take()) {
            // A lost hold is not entered.
            (Waited::Held(_, held), _) if held.tenure.check().is_err() => Ok(Waited::Over),
            // From now on the caller gives it back.
            (waited @ Waited::Held(..), _) => {
                Ok(if self.mode.take().is_some() { waited } else { Waited::Over })
            }
            (Waited::Over, Some(answer)) => answer.await.unwrap_or_else(|_| {
                Err(Error::new(
                    ErrorKind::Unavailable,
                    "the background task of the acquisition panicked, or its runtime ended",
                ))
            }),
            (waited, _) => Ok(waited),
        }
    }
}

impl Waiting {
    /// Waits until it is certain that no thread drives the task: the lease is not renewed, and a running task would
    /// have given up on a silent server.
    async fn undriven(&self) {
        let client = self.owners.client();
        let clock = client.clock();
        let patience = client.lease().ttl().saturating_add(client.request_timeout.saturating_mul(2));
        let mut end = clock.now() + patience;
        while clock.now() < end {
            clock.sleep_until(end).await;
            // The placeholder lease of a lazy client has no deadline yet; the task's own bounds apply. After a
            // lost lease the task continues with a new one.
            end = client.lease().deadline() + patience;
        }
    }

    /// Makes the error of a passed deadline: other clients hold, according to the last answer, or the server does
    /// not answer.
    fn late(&self, patience: Patience) -> Error {
        let queued =
            matches!(self.owners.progress(&self.key, self.generation), Progress::Acquiring { queued: true });
        let state = if queued { self.owners.client().lease().state() } else { LeaseState::Suspended };
        late(patience, unproven(state))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(mode) = self.mode {
            give_back(&self.owners.leave(&self.key, self.generation, mode));
        }
    }
}

/// Carries out, in the background, the effect of the end of a hold on the node.
pub(super) fn give_back(left: &Left<Arc<HeldNode>>) {
    match left {
        Left::Last(node) => node.let_go(),
        Left::Downgrade(node) => node.downgrade_later(),
        Left::Remaining | Left::Unwanted | Left::Stale => {}
    }
}

/// The task's side. If it is dropped early, also with its runtime, the waiters enter again.
struct Sharing {
    owners: Arc<Owners>,
    key: OwnedKey,
    generation: Generation,
}

impl Sharing {
    /// Notifies the owner's tasks that the acquisition waits in the queue.
    fn on_queue(&self) -> OnQueue {
        let (owners, key, generation) = (Arc::clone(&self.owners), self.key.clone(), self.generation);
        OnQueue::new(move || owners.queued(&key, generation))
    }

    fn done(&self, held: HeldNode) -> Waited {
        // If no waiter remains, the node is dropped here, which gives it back.
        self.owners.acquired(&self.key, self.generation, Arc::new(held));
        // Only a waiter whose entry has disappeared since (a loss, then another task's entry) gets this
        // result.
        Waited::Over
    }

    async fn unwanted(&self) {
        let unwanted = |progress| matches!(progress, Progress::Unwanted).then_some(());
        self.owners.until(&self.key, self.generation, unwanted).await;
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        // Does nothing after the end: the entry is then no acquisition.
        self.owners.gave_up(&self.key, self.generation);
    }
}
