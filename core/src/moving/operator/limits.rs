//! Semaphores' stored limits, as the operator of a move takes them along.
//!
//! *Protocol* (MIGRATE-LIMITS). Before a stage is written that needs both sides, each limit of the side that has
//! the tokens is written on the other one, over the limit that was read there. A participant that stores one
//! writes the side of the tokens first, then the other, and reads the stage behind that; if it is another one
//! than it knew, it writes again. So a limit that was stored before the stage that is copied from is seen, and one
//! that is stored later is on both sides. An operator that sleeps writes over what it has read, and over
//! nothing newer.

use futures_util::TryStreamExt;
use futures_util::stream::{self, StreamExt};

use super::super::staged::Staged;
use super::Move;
use super::side::{OperatorSide, on};
use crate::address::{Address, Kind, QueuePrefix};
use crate::contracts::StoredLimit;
use crate::decide::moving::Side;
use crate::error::{ErrorKind, Result};

/// So many are asked for at a time, and so many copied at once.
const PAGE: usize = 500;
const AT_ONCE: usize = 16;

impl Move {
    /// Copies the limits of this side to the other one, behind the stage that was read. Answers whether that
    /// still stood.
    pub(super) async fn carries_limits(&self, read: &Staged, from: Side) -> Result<bool> {
        let source = self.side(from);
        let of = QueuePrefix::new(&source.namespace.text, Kind::Semaphore, "")?;
        let mut after: Option<String> = None;
        loop {
            let page = source.backend().limited(&of, after.as_deref(), PAGE).await.map_err(on(from))?;
            let mut stand = stream::iter(page.queues)
                .map(|queue| self.carries_limit(read, from, queue))
                .buffer_unordered(AT_ONCE);
            while let Some(stands) = stand.try_next().await? {
                if !stands {
                    return Ok(false);
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(true);
            }
        }
    }

    async fn carries_limit(&self, read: &Staged, from: Side, queue: Address) -> Result<bool> {
        let (source, target) = (self.side(from), self.side(from.other()));
        let there = queue.moved_to(&target.namespace);
        loop {
            // What is no limit refuses a join by name, there as here.
            let StoredLimit::Permits(limit) = source.limit(&queue).await? else { return Ok(true) };
            let stored = match target.limit(&there).await? {
                StoredLimit::Foreign(_) => return Ok(true),
                known => known.permits(),
            };
            if stored == Some(limit) {
                return Ok(true);
            }
            if self.version().await? != Some(read.version) {
                return Ok(false);
            }
            let replaced = target.backend().replace_limit(&there, stored, limit).await;
            replaced.map_err(on(target.side))?;
        }
    }
}

impl OperatorSide {
    async fn limit(&self, queue: &Address) -> Result<StoredLimit> {
        match self.backend().limit(queue).await {
            Ok(limit) => Ok(limit.into()),
            Err(error) if *error.kind() == ErrorKind::Conflict => {
                Ok(StoredLimit::foreign(error.to_string().as_bytes()))
            }
            Err(error) => Err(on(self.side)(error)),
        }
    }
}
