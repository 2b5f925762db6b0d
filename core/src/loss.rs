//! How a hold's owner hears of its end: a future, a stream of states, and work that ends with it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use crate::contracts::LeaseState;
use crate::error::{Error, LostReason, Result};
use crate::holding::Tenure;

/// How a hold ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ended {
    /// It was lost: another may hold now.
    Lost(LostReason),
    /// Its owner released it, or dropped it.
    Released,
}

impl Ended {
    /// The reason, as an error has it: [`LostReason::Released`] for a hold that was released.
    pub fn reason(self) -> LostReason {
        match self {
            Ended::Lost(reason) => reason,
            Ended::Released => LostReason::Released,
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)
    }
}

/// The states from now on, ended by loss (as the last item) or release.
pub(crate) fn states(tenure: Arc<Tenure>) -> BoxStream<'static, LeaseState> {
    stream::unfold((tenure, None), |(tenure, seen)| async move {
        let state = match (seen, tenure.node()) {
            (Some(LeaseState::Lost(_)), _) => return None,
            (Some(seen), Some(node)) => tokio::select! {
                biased;
                // A loss is told also when the owner's release comes before our look.
                () = tenure.until_ended() => tenure.state()?,
                state = node.state().changed(seen) => state,
            },
            _ => tenure.state()?,
        };
        Some((state, (tenure, Some(state))))
    })
    .boxed()
}

/// Becomes ready when a hold ends, lost or released. See [`Hold::lost`](crate::Hold::lost).
pub struct Loss {
    tenure: Arc<Tenure>,
    // Sync, unlike a BoxFuture: a handle is shared between tasks.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send + Sync>>>,
}

impl Loss {
    pub(crate) fn of(tenure: Arc<Tenure>) -> Self {
        Self { tenure, waiting: None }
    }

    /// The key of the hold.
    pub fn key(&self) -> &str {
        self.tenure.queue.name()
    }

    /// How it ended, or `None` while it is held; by the clock at this call.
    pub fn ended(&self) -> Option<Ended> {
        self.tenure.ended()
    }

    /// Why it is not held any more, or `None` while it is; by the clock at this call. `Released` when its owner ended it.
    pub fn reason(&self) -> Option<LostReason> {
        self.ended().map(Ended::reason)
    }
}

impl Clone for Loss {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.tenure))
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss").field("key", &self.tenure.queue).field("ended", &self.ended()).finish()
    }
}

impl Future for Loss {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            // The clock is read before any timer is asked: a stopped process sees its loss at the first poll.
            if let Some(ended) = self.tenure.ended() {
                // With it goes what keeps the node.
                self.waiting = None;
                return Poll::Ready(ended);
            }
            let tenure = Arc::clone(&self.tenure);
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(until_ended(tenure)));
            std::task::ready!(waiting.as_mut().poll(context));
            self.waiting = None;
        }
    }
}

async fn until_ended(tenure: Arc<Tenure>) {
    if let Some(node) = tenure.node() {
        tokio::select! {
            () = tenure.until_ended() => {}
            _ = node.state().until_lost() => {}
        }
    }
}

/// Work under a hold. See [`Hold::run`](crate::Hold::run). It can be sent to another task if the work can.
#[must_use = "nothing runs until it is polled"]
pub struct Run<F> {
    lost: Loss,
    // Until it is done, or dropped with the end of the hold.
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
            return Poll::Ready(Err(Error::lost(ended.reason()).in_operation("run").on(self.lost.key())));
        }
        let work = self.work.as_mut().expect("polled after its end");
        let output = std::task::ready!(work.as_mut().poll(context));
        self.work = None;
        Poll::Ready(Ok(output))
    }
}

impl<F> fmt::Debug for Run<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("lost", &self.lost).finish_non_exhaustive()
    }
}
