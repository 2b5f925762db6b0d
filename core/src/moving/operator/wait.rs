//! The walk from step to step, and the events that wake a waiting operator.

use std::sync::Arc;

use futures_util::future::select_all;
use tokio::sync::watch;

use super::side::{OperatorSide, on};
use super::step::{Checked, Stepped};
use super::{Move, MoveProgress};
use crate::address::Address;
use crate::contracts::{QueueEntry, VersionedValue};
use crate::decide::moving::{MovePhase, Side, Way};
use crate::error::{Error, LostReason, Result};
use crate::seen;
use crate::support::{Backoff, Pauses};
use crate::watched::{View, Watched};

/// The changes of the stage and of the members. The watches read again once a TTL, even without an event.
pub(super) struct News {
    stage: watch::Receiver<View<Option<VersionedValue>>>,
    queues: Vec<WatchedQueue>,
    // The watch ends with its last user.
    _stage: Arc<Watched<Option<VersionedValue>>>,
}

struct WatchedQueue {
    side: Side,
    views: watch::Receiver<View<Arc<[QueueEntry]>>>,
    _watch: Arc<Watched<Arc<[QueueEntry]>>>,
}

impl WatchedQueue {
    fn of(side: &OperatorSide, queue: &Address) -> Self {
        let watch = side.coordinator.client().watch_queue(queue);
        Self { side: side.side, views: watch.views(), _watch: watch }
    }
}

impl News {
    pub(super) fn of(of: &Move) -> Self {
        let stage = of.old.coordinator.client().watch_cell(&of.place.stage);
        let members = WatchedQueue::of(&of.old, &of.place.members);
        Self { stage: stage.views(), queues: vec![members], _stage: stage }
    }

    /// Also watches the clients of both sides.
    fn with_clients(&mut self, of: &Move) {
        if self.queues.len() == 1 {
            let sides = [&of.old, &of.new];
            self.queues.extend(sides.map(|side| WatchedQueue::of(side, &side.place.clients)));
        }
    }

    /// Marks all changes as seen: a later read is newer.
    pub(super) fn heard(&mut self) {
        self.stage.borrow_and_update();
        self.queues.iter_mut().for_each(|queue| drop(queue.views.borrow_and_update()));
    }

    /// Waits for a change since [`heard`](Self::heard).
    pub(super) async fn changed(&mut self) -> Result<()> {
        let queues = self.queues.iter_mut().map(|queue| Box::pin(queue.views.changed()));
        let goes_on = tokio::select! {
            changed = self.stage.changed() => changed,
            (changed, _, _) = select_all(queues) => changed,
        };
        if let View::Ended(error) = &*self.stage.borrow() {
            return Err(on(Side::Old)(error.clone()));
        }
        for queue in &self.queues {
            if let View::Ended(error) = &*queue.views.borrow() {
                return Err(on(queue.side)(error.clone()));
            }
        }
        goes_on.map_err(|_| Error::closed())
    }
}

impl Move {
    /// Takes steps up to the phase `to`, or one step for `None`. The way back to the first phase gives the
    /// move up. Returns the phase, or `None` without a move.
    pub(super) async fn walk(
        &self,
        operation: &'static str,
        way: Way,
        to: Option<MovePhase>,
        progress: impl FnMut(&MoveProgress<'_>),
    ) -> Result<Option<MovePhase>> {
        self.serve(operation, self.walks(way, to, progress)).await
    }

    pub(super) async fn serve<T>(
        &self,
        operation: &'static str,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let served = self.old.coordinator.client().serve(work).await;
        served.map_err(|error| error.in_operation(operation).on(Arc::clone(&self.name)))
    }

    async fn walks(
        &self,
        way: Way,
        to: Option<MovePhase>,
        mut progress: impl FnMut(&MoveProgress<'_>),
    ) -> Result<Option<MovePhase>> {
        let lease = self.old.coordinator.lease();
        let mut pauses = Backoff::new(Pauses::of_watch(lease.ttl()));
        let walk = self.seen.walks();
        let (mut news, mut from, mut told) = (News::of(self), None, None);
        let mut checked = Checked::default();
        loop {
            news.heard();
            let read = self.stage().await;
            let stepped = match read {
                Ok(read) => {
                    let phase = read.as_ref().map_or(MovePhase::Old, |staged| staged.stage.phase);
                    let from = *from.get_or_insert(phase);
                    if has_come(way, from, to, phase) {
                        return Ok(read.map(|staged| staged.stage.phase));
                    }
                    let version = read.as_ref().map(|staged| staged.version);
                    match self.attempt(read, way, &mut checked).await {
                        Ok(Stepped::Mirrors(from)) => self.carries(from, &mut progress).await,
                        Ok(stepped) => Ok(stepped),
                        Err(error) => self.unless_overtaken(version, error).await.map(|()| Stepped::Changed),
                    }
                }
                Err(error) => Err(error),
            };
            match &stepped {
                Ok(Stepped::Waits(status)) => walk.waits_for(status.waits_for.len()),
                // The late members are unknown.
                Err(_) => {}
                Ok(_) => walk.waits_for(0),
            }
            match stepped {
                Ok(Stepped::To(stage)) => progress(&MoveProgress::Reached(stage.phase)),
                Ok(Stepped::Freezes) => progress(&MoveProgress::ValuesWait),
                // The values are copied from the current stage.
                Ok(Stepped::Changed | Stepped::Mirrors(_)) => {}
                Ok(Stepped::Ends) => return Ok((way == Way::Forward).then_some(MovePhase::Done)),
                Ok(Stepped::Waits(status)) => {
                    if told.as_ref() != Some(&status) {
                        seen::move_waits(&self.name, status.phase, status.waits_for.len());
                        progress(&MoveProgress::Waits(&status));
                        told = Some(status.clone());
                    }
                    if status.waits_for.iter().any(|late| late.lacks.is_some()) {
                        news.with_clients(self);
                    }
                    match news.changed().await {
                        Ok(()) => {}
                        // The watch has ended with its lease, or the server has lost data. The next step
                        // reads again.
                        Err(error)
                            if error.lost_reason().is_some_and(|reason| reason != LostReason::Closed) =>
                        {
                            progress(&MoveProgress::Outage(&error));
                            pauses.wait(lease.clock()).await;
                            news = News::of(self);
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                }
                Err(error) if error.may_pass() => {
                    progress(&MoveProgress::Outage(&error));
                    pauses.wait(lease.clock()).await;
                    continue;
                }
                Err(error) => return Err(error),
            }
            pauses.reset();
        }
    }
}

/// Whether a walk ends in this phase. In the first and last phase, the gate ends it.
fn has_come(way: Way, from: MovePhase, to: Option<MovePhase>, phase: MovePhase) -> bool {
    match (way, to) {
        (Way::Forward, _) if phase == MovePhase::Done => false,
        (Way::Forward, Some(to)) => phase >= to,
        (Way::Back, Some(_)) => false,
        (_, None) => phase != from,
    }
}
