//! The stored limits of semaphores, which are on both sides while both are needed (MIGRATE-LIMITS).
//!
//! A participant stores a limit on each side that its phase spans, as a counted change of a value. So no
//! limit changes while values are copied. The operator copies limits then, and once before both sides are
//! needed: it reads the target, *then* the source, checks that the stage is unchanged, and writes over the
//! read limit. `docs/protocol/moving.md` has the reasons.

use std::sync::Arc;

use futures_util::TryStreamExt;
use futures_util::future::{BoxFuture, try_join_all};

use super::mirror::{AT_ONCE, Copying, Place};
use crate::address::{Address, Kind};
use crate::contracts::{KeysWith, StoredLimit};
use crate::error::{Error, ErrorKind, Result};

pub(crate) type Stands<'a> = dyn Fn() -> BoxFuture<'a, Result<bool>> + Send + Sync + 'a;

impl Place {
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
    /// Writes each limit of the source on the target; `false` if the stage has changed.
    ///
    /// # Cancel safety
    /// A write under way may be made.
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

    /// The limits of target and source, if they differ. The target is read first, so a written limit is no
    /// older than the replaced one. A text that is not a limit refuses joins on both sides.
    async fn unlike(&self, queue: &Address) -> Result<Option<(Option<u32>, u32)>> {
        let stored = self.target.limit(&queue.moved_to(&self.target.namespace)).await?;
        Ok(match (self.source.limit(queue).await?, stored) {
            (StoredLimit::Absent | StoredLimit::Foreign(_), _) | (_, StoredLimit::Foreign(_)) => None,
            (StoredLimit::Permits(limit), stored) => {
                Some((stored.permits(), limit)).filter(|(stored, limit)| *stored != Some(*limit))
            }
        })
    }

    /// The key of a limit that differs on the two sides, if any.
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
