use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt, stream};

use super::ended::{Ended, HoldState};
use super::tenures::{HeldBy, Tenures};
use crate::error::Result;
use crate::shown::shown;

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

/// A future that becomes ready when a hold ends, by a loss or a release: [`Hold::lost`](crate::Hold::lost).
pub struct Loss {
    tenures: Tenures,
    // Sync, unlike a `BoxFuture`: tasks share a handle.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Loss {
    pub(crate) fn of(held: HeldBy<'_>) -> Self {
        Self { tenures: held.into(), waiting: None }
    }

    /// Returns the key of the hold: the first of several, or after a loss the lost one.
    pub fn key(&self) -> &str {
        self.tenures.held_by().key()
    }

    /// Returns how the hold ended, by the clock at this call.
    pub fn ended(&self) -> Option<Ended> {
        self.tenures.held_by().ended()
    }

    /// Returns on which coordinator the lease was lost, as text. Only for a lost hold over both sides of a
    /// [move](crate::MoveConfig), and not after its guard was released or dropped.
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
            // The clock is read before any timer, so a process that was stopped sees its loss at the first
            // poll.
            if let Some(ended) = self.ended() {
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

pub(crate) struct Run<F> {
    lost: Loss,
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
