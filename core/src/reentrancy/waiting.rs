//! A background task runs an owner's acquisition, and the owner's tasks wait for its end
//! (OWNER-ACQUIRES-IN-BACKGROUND). In the future of the first task it would stop while that task does not
//! poll it, and block all later tasks of the owner.
//!
//! The background task drops its attempt when no waiter is counted any more. The owner may acquire again
//! after the clean-up, so that a try does not meet its own old node.

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

#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) deadline: Moment,
    pub(crate) patience: Patience,
    pub(crate) fail_fast: bool,
}

/// A task's wait, which a drop ends.
pub(super) struct Waiting {
    owners: Arc<Owners>,
    key: OwnedKey,
    generation: Generation,
    // `None` for a waiter that is not counted.
    mode: Option<Mode>,
    // Only the task that started the acquisition has it.
    answer: Option<oneshot::Receiver<Result<Waited>>>,
}

pub(super) enum Waited {
    Held(Generation, Arc<HeldNode>),
    Refused,
    Over,
}

impl Waiting {
    pub(super) fn join(owners: &Arc<Owners>, key: &OwnedKey, generation: Generation, mode: Mode) -> Self {
        let mut waiting = Self::later(owners, key, generation);
        waiting.mode = Some(mode);
        waiting
    }

    /// Waits for the end of an acquisition that does not fit.
    pub(super) fn later(owners: &Arc<Owners>, key: &OwnedKey, generation: Generation) -> Self {
        let (owners, key) = (Arc::clone(owners), key.clone());
        Self { owners, key, generation, mode: None, answer: None }
    }

    /// Starts the acquisition, with this waiter's options.
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
                // The attempt is cleaned up here, and given up after that.
                () = acquiring.unwanted() => return,
            };
            let answer = answer.map(|held| match held {
                Some(held) => acquiring.done(held),
                None => Waited::Refused,
            });
            drop(acquiring);
            let _ = sender.send(answer);
        };
        owners.client().cleanup.beside(work.in_current_span());
        waiting.answer = Some(answer);
        waiting
    }

    pub(super) async fn outcome(mut self, bounds: Bounds) -> Result<Waited> {
        let Bounds { deadline, patience, fail_fast } = bounds;
        let (client, clock) = (self.owners.client(), self.owners.client().clock());
        let began = self.answer.is_some();
        // The background task applies the deadline, and knows why it passed. The longer wait is for a runtime
        // that no thread drives.
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
            // The background task reports it to the first task.
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
    /// Returns when no thread drives the runtime: a running task would have given up on a silent server.
    async fn undriven(&self) {
        let client = self.owners.client();
        let clock = client.clock();
        let patience = client.lease().ttl().saturating_add(client.request_timeout.saturating_mul(2));
        let mut end = clock.now() + patience;
        while clock.now() < end {
            clock.sleep_until(end).await;
            // A lazy client's placeholder lease has no deadline. After a lost lease the task continues with a
            // new one.
            end = client.lease().deadline() + patience;
        }
    }

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

pub(super) fn give_back(left: &Left<Arc<HeldNode>>) {
    match left {
        Left::Last(node) => node.let_go(),
        Left::Downgrade(node) => node.downgrade_later(),
        Left::Remaining | Left::Unwanted | Left::Stale => {}
    }
}

/// A drop before the end lets the waiters enter again, also at the end of the runtime.
struct Sharing {
    owners: Arc<Owners>,
    key: OwnedKey,
    generation: Generation,
}

impl Sharing {
    fn on_queue(&self) -> OnQueue {
        let (owners, key, generation) = (Arc::clone(&self.owners), self.key.clone(), self.generation);
        OnQueue::new(move || owners.queued(&key, generation))
    }

    fn done(&self, held: HeldNode) -> Waited {
        // Without a waiter, the node is dropped here, which gives it back.
        self.owners.acquired(&self.key, self.generation, Arc::new(held));
        // Only a waiter whose entry has disappeared since gets this (a loss, then another task's entry).
        Waited::Over
    }

    async fn unwanted(&self) {
        let unwanted = |progress| matches!(progress, Progress::Unwanted).then_some(());
        self.owners.until(&self.key, self.generation, unwanted).await;
    }
}

impl Drop for Sharing {
    fn drop(&mut self) {
        self.owners.gave_up(&self.key, self.generation);
    }
}
