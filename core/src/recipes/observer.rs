//! Who leads, as it changes.

use std::fmt;
use std::sync::Arc;

use futures_util::Stream;

use super::leadership::Leader;
use super::queue_handle::QueueHandle;
use super::watcher::{Watcher, answers};
use crate::contracts::Entry;
use crate::error::Result;

/// Who leads, as it changes. All observers of one election on one client share one watch.
///
/// *Protocol.* The client watches the queue on the server, and reads its head after each change,
/// after each new connection, and once a TTL in any case. Terms that an observer sees only rise, and
/// it sees every leader, every proclamation and every gap that lasts. What comes and goes while
/// nobody asks is skipped. The death of a leader is seen when the server has ended its lease, also
/// when nobody follows it.
///
/// Dropping it ends it; the watch ends with the last observer. Observers do not depend on the
/// lease, which may be lost meanwhile.
#[must_use = "an observer that is dropped at once observes nothing"]
pub struct Observer {
    handle: Arc<QueueHandle>,
    watcher: Watcher<Arc<[Entry]>>,
    // What `changed` answered last.
    answered: Option<Option<Leader>>,
}

impl Observer {
    pub(super) async fn open(handle: &Arc<QueueHandle>) -> Result<Self> {
        Ok(Self { handle: handle.clone(), watcher: handle.watch().await?, answered: None })
    }

    /// Who was seen to lead last, without a request. During an outage this may be old:
    /// [`is_current`](Self::is_current) tells.
    ///
    /// # Errors
    /// Why the observer has ended: `Closed`; `Lost` with the reason `Forgotten` when the server is
    /// without its data; `Forbidden`; `Conflict`; `Misconfigured`.
    pub fn latest(&self) -> Result<Option<Leader>> {
        self.watcher.latest().and_then(|head| self.handle.leading(&head))
    }

    /// Whether the server is watched now: it has told of every change, or is about to.
    pub fn is_current(&self) -> bool {
        self.watcher.is_current()
    }

    /// Waits until another leads than in the last answer, or the same with other data, or nobody
    /// does, and answers who. The first call answers at once.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `RuntimeGone`. An outage is waited out.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next call answers what a dropped one has not.
    pub async fn changed(&mut self) -> Result<Option<Leader>> {
        let handle = &self.handle;
        let next = self.watcher.next(&mut self.answered, |head| handle.leading(head)).await;
        self.handle.in_context("observe", next)
    }

    /// The answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Option<Leader>>> + Send {
        answers(self, |observer| Box::pin(observer.changed()))
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("election", &self.handle.queue)
            .field("view", &self.watcher)
            .finish_non_exhaustive()
    }
}
