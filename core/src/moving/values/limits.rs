//! Semaphores' stored limits, which are on both sides while both are needed.
//!
//! *Protocol* (MIGRATE-LIMITS). A participant that stores a limit writes it on each side that its phase spans, and
//! is counted as one that changes a value. So while values are copied nobody stores one, and what was stored
//! before is on the side that gives the tokens. An operator copies limits from there in that time, and once
//! before the first stage that needs both sides. It writes each over the one that it read on the other side
//! *before* that of the source, once it has seen that the stage still stands. So one that sleeps, and wakes up
//! in a later stage, finds another limit there, or one that it may write.

use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::future::{BoxFuture, try_join_all};

use super::mirror::{AT_ONCE, Copying, Place};
use crate::address::{Address, Kind};
use crate::contracts::{KeysWith, StoredLimit};
use crate::error::{Error, ErrorKind, Result};

/// Tells whether a stage still stands.
pub(crate) type Stands<'a> = dyn Fn() -> BoxFuture<'a, Result<bool>> + Send + Sync + 'a;

impl Place {
    /// The queues that have something stored as their limit.
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
    /// Writes each limit of the source on the target. Answers whether the stage behind which it was called
    /// has stood throughout, which `stands` tells.
    ///
    /// # Errors
    /// Those of `stands`, and of reading and writing limits, naming the key.
    ///
    /// # Cancel safety
    /// What is under way may be made.
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

    /// The limit on the target, and the one that the source has, where they differ. The target is read first:
    /// what is written is no older than what it is written over. What is no limit refuses a join by name, there
    /// as here.
    async fn unlike(&self, queue: &Address) -> Result<Option<(Option<u32>, u32)>> {
        let stored = self.target.limit(&queue.moved_to(&self.target.namespace)).await?;
        Ok(match (self.source.limit(queue).await?, stored) {
            (StoredLimit::Absent | StoredLimit::Foreign(_), _) | (_, StoredLimit::Foreign(_)) => None,
            (StoredLimit::Permits(limit), stored) => {
                Some((stored.permits(), limit)).filter(|(stored, limit)| *stored != Some(*limit))
            }
        })
    }

    /// A limit that is not the same on both sides, if there is one: its key.
    ///
    /// # Errors
    /// Those of reading limits, naming the key.
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
