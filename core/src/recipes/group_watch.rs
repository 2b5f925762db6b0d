//! Who is there, as it changes.

use std::fmt;
use std::sync::Arc;

use futures_util::Stream;

use super::group_changes::GroupChanges;
use super::group_member::GroupMember;
use super::queue_handle::QueueHandle;
use super::watcher::{Watcher, answers};
use crate::contracts::Entry;
use crate::error::Result;

/// The members of a group, as they change. All watches of one group on one client share one watch
/// on the server, and what was read last.
///
/// *Protocol.* The client watches the queue on the server, and reads it after each change, after
/// each new connection, and once a TTL in any case. A watch sees every join, change and leave that
/// lasts; what comes and goes while nobody asks is skipped. A death is seen when the server has
/// ended the lease.
///
/// Dropping it ends it. Watches do not depend on the lease, which may be lost meanwhile.
#[must_use = "a watch that is dropped at once sees nothing"]
pub struct GroupWatch {
    handle: Arc<QueueHandle>,
    watcher: Watcher<Arc<[Entry]>>,
    // What was answered last.
    answered: Option<Vec<GroupMember>>,
}

impl GroupWatch {
    pub(super) async fn open(handle: &Arc<QueueHandle>) -> Result<Self> {
        Ok(Self { handle: handle.clone(), watcher: handle.watch().await?, answered: None })
    }

    /// The members that were seen last, without a request. During an outage they may be old:
    /// [`is_current`](Self::is_current) tells.
    ///
    /// # Errors
    /// Why the watch has ended: `Closed`; `Lost` with the reason `Forgotten` when the server is
    /// without its data; `Forbidden`.
    pub fn latest(&self) -> Result<Vec<GroupMember>> {
        self.watcher.latest().map(|entries| members(&entries))
    }

    /// Whether the server is watched now: it has told of every change, or is about to.
    pub fn is_current(&self) -> bool {
        self.watcher.is_current()
    }

    /// Waits until the members differ from the last answer, and answers all of them in the order of
    /// joining. The first call answers at once.
    ///
    /// # Errors
    /// As [`latest`](Self::latest); `RuntimeGone`. An outage is waited out.
    ///
    /// # Cancel safety
    /// Cancel-safe: the next call answers what a dropped one has not.
    pub async fn changed(&mut self) -> Result<Vec<GroupMember>> {
        let next = self.watcher.next(&mut self.answered, |entries| Ok(members(entries))).await;
        self.handle.in_context("watch", next)
    }

    /// As [`changed`](Self::changed), and answers what differs from the last answer of either. If
    /// nothing was answered before, all members have joined.
    ///
    /// # Errors
    /// As [`changed`](Self::changed).
    ///
    /// # Cancel safety
    /// As [`changed`](Self::changed).
    pub async fn changes(&mut self) -> Result<GroupChanges> {
        let before = self.answered.clone().unwrap_or_default();
        let now = self.changed().await?;
        Ok(GroupChanges::between(&before, &now))
    }

    /// The answers of [`changed`](Self::changed) as a stream, which ends after an error.
    pub fn into_stream(self) -> impl Stream<Item = Result<Vec<GroupMember>>> + Send {
        answers(self, |watch| Box::pin(watch.changed()))
    }

    /// The answers of [`changes`](Self::changes) as a stream, which ends after an error.
    pub fn into_changes(self) -> impl Stream<Item = Result<GroupChanges>> + Send {
        answers(self, |watch| Box::pin(watch.changes()))
    }
}

/// The members in a queue.
pub(super) fn members(entries: &[Entry]) -> Vec<GroupMember> {
    entries.iter().map(GroupMember::of).collect()
}

impl fmt::Debug for GroupWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupWatch")
            .field("group", &self.handle.queue)
            .field("view", &self.watcher)
            .finish_non_exhaustive()
    }
}
