//! Who leads, as it changes.

use std::fmt;

use futures_util::Stream;

use super::cell_handle::CellHandle;
use super::cell_watch::ValueWatch;
use super::leadership::{Leading, stands};
use super::queue_handle::QueueHandle;
use crate::clock::Moment;
use crate::decide::renewal_period;
use crate::error::Result;

/// Who leads, as it changes. All observers of one election on one client share one watch.
///
/// A leader is seen as soon as it has announced itself, and its resignation at once. The death of a
/// leader that another follows is seen with its successor; of one that nobody follows, within a
/// third of this client's TTL after its place in the queue is gone. Terms that it sees only rise;
/// what comes and goes while nobody asks is skipped.
#[must_use = "an observer that is dropped at once observes nothing"]
pub struct Observer {
    queue: QueueHandle,
    watch: ValueWatch,
    // What `changed` answered last.
    answered: Option<Option<Leading>>,
    // Whom the cell names, whether it stood at the last look, and when to look again.
    named: Option<Leading>,
    stands: bool,
    look_at: Moment,
}

impl Observer {
    pub(super) async fn open(queue: &QueueHandle, cell: &CellHandle) -> Result<Self> {
        let watch = ValueWatch::open(cell).await?;
        let (answered, named, stands, look_at) = (None, None, false, Moment::PAST);
        Ok(Self { queue: queue.clone(), watch, answered, named, stands, look_at })
    }

    /// Waits until another leads than in the last answer, or nobody does, and answers who. The
    /// first call answers at once.
    ///
    /// # Errors
    /// `Lost` with the reason `Forgotten` when the server is without its data; `Conflict`;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next call answers what a dropped one has not.
    pub async fn changed(&mut self) -> Result<Option<Leading>> {
        let changed = self.next().await;
        self.watch.handle().in_context("observe", changed)
    }

    async fn next(&mut self) -> Result<Option<Leading>> {
        let client = self.watch.handle().client.clone();
        let clock = client.clock();
        loop {
            let named = self.watch.glance()?.as_ref().map(Leading::of).transpose()?;
            if named != self.named {
                // It stood when it wrote, which may be long ago: this client may have been cut off.
                (self.named, self.look_at) = (named, Moment::PAST);
            }
            if clock.now() >= self.look_at {
                self.look().await?;
            }
            let leading = self.named.clone().filter(|_| self.stands);
            if self.answered.as_ref() != Some(&leading) {
                self.answered = Some(leading.clone());
                return Ok(leading);
            }
            tokio::select! {
                news = self.watch.news() => news?,
                () = clock.sleep_until(self.look_at) => {}
            }
        }
    }

    /// Looks whether the named leader stands. An outage says nothing: it is looked for again.
    async fn look(&mut self) -> Result<()> {
        let client = self.watch.handle().client.clone();
        self.stands = match &self.named {
            None => false,
            Some(named) => match stands(&self.queue, named.term).await {
                Ok(stands) => stands,
                Err(error) if error.is_retryable() => {
                    tracing::debug!(%error, "it is not known whether the leader stands");
                    true
                }
                Err(error) => return Err(error),
            },
        };
        self.look_at = client.clock().now() + renewal_period(client.lease().ttl());
        Ok(())
    }

    /// The answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<Leading>>> + Send {
        futures_util::stream::unfold(Some(self), |observer| async {
            let mut observer = observer?;
            let next = observer.changed().await;
            let rest = next.is_ok().then_some(observer);
            Some((next, rest))
        })
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("election", &self.queue.queue)
            .field("answered", &self.answered)
            .finish_non_exhaustive()
    }
}
