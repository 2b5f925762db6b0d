//! How a hold's owner hears that it is lost: a future, and a stream of states.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use crate::contracts::LeaseState;
use crate::error::{Lost, LostReason};
use crate::holding::Tenure;

/// The states from now on, ended by loss (as the last item) or release.
pub(crate) fn states(tenure: Arc<Tenure>) -> BoxStream<'static, LeaseState> {
    stream::unfold((tenure, None), |(tenure, seen)| async move {
        let state = match seen {
            Some(LeaseState::Lost(_)) => return None,
            None => tenure.state()?,
            Some(seen) => tokio::select! {
                biased;
                // A loss is told also when the owner's release comes before our look.
                () = tenure.until_ended() => tenure.state()?,
                state = tenure.node.state().changed(seen) => state,
            },
        };
        Some((state, (tenure, Some(state))))
    })
    .boxed()
}

/// Becomes ready when a hold is lost. See [`Hold::lost`](crate::Hold::lost).
pub struct Loss {
    tenure: Arc<Tenure>,
    // Sync, unlike a BoxFuture: a handle is shared between tasks.
    waiting: Option<Pin<Box<dyn Future<Output = LostReason> + Send + Sync>>>,
}

impl Loss {
    pub(crate) fn of(tenure: Arc<Tenure>) -> Self {
        Self { tenure, waiting: None }
    }

    /// Why it is lost, or `None` while it is not; by the clock at this call. It stays `None` for ever when the hold is
    /// released: a loop that may go on behind a release looks at [`Hold::check`](crate::Hold::check).
    pub fn reason(&self) -> Option<LostReason> {
        self.tenure.lost()
    }
}

impl Clone for Loss {
    fn clone(&self) -> Self {
        Self::of(Arc::clone(&self.tenure))
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loss").field("key", &self.tenure.queue).field("reason", &self.reason()).finish()
    }
}

impl Future for Loss {
    type Output = Lost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Lost> {
        let tenure = Arc::clone(&self.tenure);
        // The clock is read before any timer is asked: a stopped process sees its loss at the first poll.
        let reason = match tenure.lost() {
            Some(reason) => reason,
            None => {
                let waiting = self.waiting.get_or_insert_with(|| Box::pin(until_lost(Arc::clone(&tenure))));
                std::task::ready!(waiting.as_mut().poll(context))
            }
        };
        self.waiting = None;
        Poll::Ready(Lost { key: tenure.queue.name().into(), reason })
    }
}

async fn until_lost(tenure: Arc<Tenure>) -> LostReason {
    let reason = tokio::select! {
        biased;
        () = tenure.until_ended() => tenure.lost(),
        reason = tenure.node.state().until_lost() => Some(reason),
    };
    match reason {
        Some(reason) => reason,
        // Released in time: it will never be lost.
        None => std::future::pending().await,
    }
}
