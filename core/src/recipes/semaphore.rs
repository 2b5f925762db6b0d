use std::sync::Arc;

use parking_lot::Mutex;

use super::acquire::{Acquire, Acquired};
use super::ask::Ask;
use super::guards::Permit;
use super::handles::addressed;
use super::queue_handle::QueueHandle;
use crate::contracts::{ExpectedLimit, Limit, QueueEntry};
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::listing::Listing;

/// A fair semaphore on a coordinator: clients hold at most `limit` permits at a time. It limits concurrency,
/// not rate.
///
/// *Protocol.* An acquisition takes all permits of its weight or none, and overtakes no waiter. The limit is
/// stored on the coordinator; [`set_limit`](Semaphore::set_limit) changes it under load. The [`Limit`] of a
/// handle decides:
///
/// | limit | if no limit is stored | if another limit is stored |
/// |---|---|---|
/// | [`Limit::UnlessStored(3)`](Limit::UnlessStored) | stores 3 | uses the stored limit |
/// | `3`, or [`Limit::Exactly(3)`](Limit::Exactly) | stores 3 | `Conflict` |
/// | [`Limit::Stored`] | `Conflict` | uses the stored limit |
///
/// *When the lease is lost*, so are the permits. Permits have no fencing token. *Source.* Curator's
/// `InterProcessSemaphoreV2`; the order, the weights and the stored limit are new.
///
/// ```
/// # use latchwork_core::{connect, Limit, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let exports = coordinator.semaphore("exports", Limit::UnlessStored(3))?;
/// let (light, heavy) = (exports.acquire(1).await?, exports.acquire(2).await?);
/// assert!(exports.try_acquire(1).await?.is_none());
/// light.release().await?;
/// heavy.release().await?;
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Semaphore {
    pub(super) handle: Arc<QueueHandle>,
    // Shared: `set_limit` by one clone counts for all.
    limit: Arc<Mutex<Limit>>,
}

impl Semaphore {
    pub(crate) fn new(handle: QueueHandle, limit: Limit) -> Result<Self> {
        if limit.to_store() == Some(0) {
            return Err(Error::invalid("limit", "must not be zero").on(handle.queue.name()));
        }
        Ok(Self { handle: Arc::new(handle), limit: Arc::new(Mutex::new(limit)) })
    }

    /// Acquires `weight` permits: waits until all of them are free.
    ///
    /// # Errors
    /// * `InvalidArgument` (`weight`): the weight is zero, or above the handle's exact limit.
    /// * `Conflict`: the stored limit is not the handle's exact limit, is lower than the weight (also if it
    ///   is lowered during the wait), is missing for [`Limit::Stored`], or is not a limit.
    /// * The errors of [`Mutex::acquire`](super::Mutex::acquire).
    pub fn acquire(&self, weight: u32) -> Acquire<Permit> {
        self.ask(Ask::new("acquire", Claim::Permits(weight)))
    }

    /// Acquires `weight` permits if they are free and no client waits; otherwise returns `None` without
    /// waiting.
    ///
    /// # Errors
    /// As [`acquire`](Semaphore::acquire), without `Timeout`.
    pub fn try_acquire(&self, weight: u32) -> Acquire<Option<Permit>> {
        self.ask(Ask::try_new("try_acquire", Claim::Permits(weight)))
    }

    fn ask<T: Acquired>(&self, ask: Ask) -> Acquire<T> {
        Ask { limit: self.limit(), ..ask }.of(self.handle.clone())
    }

    pub(super) fn limit(&self) -> Limit {
        *self.limit.lock()
    }

    /// Reads the stored limit, if there is one.
    ///
    /// # Errors
    /// * `Conflict`: the stored value is not a limit.
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// The call only reads.
    pub async fn stored_limit(&self) -> Result<Option<u32>> {
        let client = self.handle.client();
        let limit = client.serve(client.backend.limit(&self.handle.queue)).await;
        self.handle.in_context("stored_limit", limit)
    }

    /// Replaces the stored limit, and the limit of this handle and its clones. Other handles with the exact
    /// old limit get `Conflict` at their next acquisition; all others use the new limit.
    ///
    /// Waiters that fit are admitted at once; a waiter with a weight above the limit gets `Conflict`. A lower
    /// limit revokes no permits: no waiter is admitted until the held permits are within it.
    ///
    /// # Errors
    /// * `InvalidArgument` (`limit`): the limit is zero.
    /// * `OutcomeUnknown`: the limit may have been stored, and this handle keeps its old one: read
    ///   [`stored_limit`](Semaphore::stored_limit).
    /// * The errors of [every call](crate::ErrorKind).
    ///
    /// # Cancel safety
    /// A dropped call may still store the limit.
    pub async fn set_limit(&self, limit: u32) -> Result<()> {
        if limit == 0 {
            return self.handle.in_context("set_limit", Err(Error::invalid("limit", "must not be zero")));
        }
        let client = self.handle.client();
        let set = client.backend.set_limit(&self.handle.queue, ExpectedLimit::Any, limit);
        self.handle.in_context("set_limit", client.serve(set).await)?;
        let mut expected = self.limit.lock();
        *expected = match *expected {
            Limit::Exactly(_) => Limit::Exactly(limit),
            Limit::UnlessStored(_) => Limit::UnlessStored(limit),
            Limit::Stored => Limit::Stored,
        };
        Ok(())
    }

    /// Lists the holders and the waiters in queue order.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes a client's node, as [`Mutex::force_release`](super::Mutex::force_release).
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Semaphore, self => self.handle.queue, limit);

impl Permit {
    /// Returns how many permits are held.
    pub fn weight(&self) -> u32 {
        match self.0.claim() {
            Claim::Permits(weight) => weight,
            Claim::Exclusive | Claim::Shared => unreachable!("a semaphore's"),
        }
    }
}
