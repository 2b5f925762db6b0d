//! The stored limits of semaphores, which are on both sides while both are needed.
//!
//! *Protocol* (MIGRATE-LIMITS). A participant that stores a limit writes it on each side that its phase
//! spans, and is counted like a change of a value. So while values are copied no participant stores a limit,
//! and all limits stored before are on the side that gives the tokens. An operator copies limits from there
//! in that time, and once before the first stage that needs both sides. It first reads the limit on the other
//! side, *then* the limit of the source, then checks that the stage is unchanged, and writes over the limit
//! that it read. So an operator that sleeps, and wakes up in a later stage, finds another limit there, or a
//! limit that it may replace.

use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::future::{BoxFuture, try_join_all};

use super::mirror::{AT_ONCE, Copying, Place};
use crate::address::{Address, Kind};
use crate::contracts::{KeysWith, StoredLimit};
use crate::error::{Error, ErrorKind, Result};

/// Reports whether a stage is unchanged.
pub(crate) type Stands<'a> = dyn Fn() -> BoxFuture<'a, Result<bool>> + Send + Sync + 'a;

impl Place {
    /// The queues with a stored limit, valid or not.
    async fn limited(&self) -> Result<Vec<Address>> {
        self.keys(KeysWith::Limit, Kind::Semaphore)?.map_ok(|listed| listed.address).try_collect().await
    }

    async fn limit(&self, queue: &Address) -> Result<StoredLimit> {
        match self.backend.limit(queue).await {
            Ok(limit) => Ok(limit.into()),
            Err(error) if error.kind() == ErrorKind::Conflict => {
                Ok(StoredLimit::foreign(error.to_string().as_bytes()))
            }
            Err(error) => Err(error.on(queue.name())),
        }
    }
}

impl Copying {
    /// Writes each limit of the source on the target. Returns whether the stage was unchanged throughout, as `stands`
    /// reports.
    ///
    /// # Errors
    /// As `stands`, and as reads and writes of limits, naming the key.
    ///
    /// # Cancel safety
    /// A write that is under way may be made.
    pub(crate) async fn copy_limits(&self, stands: &Stands<'_>) -> Result<bool> {
        for some in self.source.limited().await?.chunks(AT_ONCE) {
            let copied = try_join_all(some.iter().map(|queue| self.copy_limit(queue, stands))).await?;
            if copied.contains(&false) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn copy_limit(&self, queue: &Address, stands: &Stands<'_>) -> Result<bool> {
        while let Some((stored, limit)) = self.unlike(queue).await? {
            if !stands().await? {
                return Ok(false);
            }
            let there = queue.moved_to(&self.target.namespace);
            let replaced = self.target.backend.set_limit(&there, stored.into(), limit).await;
            replaced.map_err(|error: Error| error.on(queue.name()))?;
        }
        Ok(true)
    }

    /// The limits of the target and of the source, if they differ. The target is read first, so a written limit is
    /// no older than the limit that it replaces. A stored text that is not a limit refuses joins on both sides.
    async fn unlike(&self, queue: &Address) -> Result<Option<(Option<u32>, u32)>> {
        let stored = self.target.limit(&queue.moved_to(&self.target.namespace)).await?;
        Ok(match (self.source.limit(queue).await?, stored) {
            (StoredLimit::Absent | StoredLimit::Foreign(_), _) | (_, StoredLimit::Foreign(_)) => None,
            (StoredLimit::Permits(limit), stored) => {
                Some((stored.permits(), limit)).filter(|(stored, limit)| *stored != Some(*limit))
            }
        })
    }

    /// The key of a limit that differs on the two sides, if there is one.
    ///
    /// # Errors
    /// As reads of limits, naming the key.
    ///
    /// # Cancel safety
    /// Reads only.
    pub(super) async fn unlike_limit(&self) -> Result<Option<Arc<str>>> {
        for some in self.source.limited().await?.chunks(AT_ONCE) {
            let found = try_join_all(some.iter().map(|queue| self.unlike(queue))).await?;
            if let Some(at) = found.iter().position(Option::is_some) {
                return Ok(Some(Arc::clone(some[at].shared_name())));
            }
        }
        Ok(None)
    }
}
