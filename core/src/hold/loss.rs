//! How the end of a hold reaches its owner: as a future, as a stream of states, and as the end of
//! work that runs under it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt, stream};

use super::ended::{Ended, HoldState};
use super::tenures::{HeldBy, Tenures};
use crate::error::Result;
use crate::shown::shown;

/// The states from now on; the last one is the end.
pub(crate) fn states(tenures: Tenures) -> impl Stream<Item = HoldState> + Send + 'static + use<> {
    let states = stream::unfold((tenures, None), |(tenures, seen)| async move {
        let state = match seen {
            Some(HoldState::Ended(_)) => return None,
            Some(seen) => tenures.held_by().changed(seen).await,
            None => tenures.held_by().state(),
        };
        Some((state, (tenures, Some(state))))
    });
    states.boxed()
}

/// Becomes ready when a hold ends, lost or released. See [`Hold::lost`](crate::Hold::lost).
pub struct Loss {
    tenures: Tenures,
    // Sync, unlike a BoxFuture: tasks share a handle.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Loss {
    pub(crate) fn of(held: HeldBy<'_>) -> Self {
        Self { tenures: held.into(), waiting: None }
    }

    /// The key of the hold. Of a hold on several keys it is the first, and once the hold was lost
    /// the key whose loss ended it.
    pub fn key(&self) -> &str {
        self.tenures.held_by().key()
    }

    /// How the hold ended, or `None` while it is held; by the clock at this call.
    pub fn ended(&self) -> Option<Ended> {
        self.tenures.held_by().ended()
    }

    /// Where its lease was lost, for people: of a hold over both sides of a
    /// [move](crate::MoveConfig), whose loss on either side ends it. `None` while it is held, for every
    /// other hold, and once its guard is released or dropped.
    pub fn lost_on(&self) -> Option<String> {
        self.tenures.held_by().lost_on()
    }
}

impl Clone for Loss {
    fn clone(&self) -> Self {
        Self::of(self.tenures.held_by())
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss")
            .field("key", &shown(self.key(), usize::MAX))
            .field("ended", &self.ended())
            .finish()
    }
}

impl Future for Loss {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            // The clock is read before any timer, so that a process that was stopped sees its loss
            // at the first poll.
            if let Some(ended) = self.ended() {
                // Frees the node, which this future has kept.
                self.waiting = None;
                return Poll::Ready(ended);
            }
            let tenures = self.tenures.clone();
            let waiting = self
                .waiting
                .get_or_insert_with(|| Box::pin(async move { tenures.held_by().until_ended().await }));
            std::task::ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
    }
}

/// Work under a hold. See [`Hold::run`](crate::Hold::run). It is `Send` if the work is.
pub(crate) struct Run<F> {
    lost: Loss,
    // `None` once it is done, or dropped with the end of the hold.
    work: Option<Pin<Box<F>>>,
}

impl<F> Run<F> {
    pub(crate) fn new(lost: Loss, work: F) -> Self {
        Self { lost, work: Some(Box::pin(work)) }
    }
}

impl<F: Future> Future for Run<F> {
    type Output = Result<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(ended) = Pin::new(&mut self.lost).poll(context) {
            self.work = None;
            return Poll::Ready(Err(ended.error().in_operation("run").on(self.lost.key())));
        }
        let work = self.work.as_mut().expect("polled after its end");
        let output = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(Ok(output))
    }
}
