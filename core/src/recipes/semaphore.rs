//! A fair semaphore with weighted permits.

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

/// A fair semaphore on a coordinator: at most `limit` permits are held at a time. It limits
/// concurrency, not rate.
///
/// *Protocol.* An acquisition takes a weight, all of it or none, and is admitted in the order of
/// joining: nothing overtakes a waiter that does not fit yet. The first acquisition stores the
/// limit on the coordinator, where it stays; [`set_limit`](Semaphore::set_limit) changes it under
/// load. A handle's [`Limit`] decides how it relates to the stored limit:
///
/// | limit | stores the first limit | if another limit is stored |
/// |---|---|---|
/// | [`Limit::UnlessStored(3)`](Limit::UnlessStored) | 3 | follows the stored limit |
/// | `3`, or [`Limit::Exactly(3)`](Limit::Exactly) | 3 | `Conflict`: two versions of a service cannot disagree |
/// | [`Limit::Stored`] | nothing: `Conflict` | follows the stored limit |
///
/// *Source.* Curator's `InterProcessSemaphoreV2` has leases on permits; the order, the weights and
/// the stored limit are this library's.
///
/// *When the lease is lost*, another client may hold the permit at once: as with every lease lock,
/// a paused process can work on next to its successor for a moment. Permits have no token.
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
    // Shared, since `set_limit` by one clone counts for all.
    limit: Arc<Mutex<Limit>>,
}

impl Semaphore {
    pub(crate) fn new(handle: QueueHandle, limit: Limit) -> Result<Self> {
        if limit.to_store() == Some(0) {
            return Err(Error::invalid("limit", "must not be zero").on(handle.queue.name()));
        }
        Ok(Self { handle: Arc::new(handle), limit: Arc::new(Mutex::new(limit)) })
    }

    /// Waits its turn until `weight` permits are free. As
    /// [`Mutex::acquire`](super::Mutex::acquire) otherwise.
    ///
    /// # Errors
    /// `InvalidArgument` naming `weight` when it is zero or above the limit; `Conflict` when
    /// another limit is stored, when none is and this handle only follows it, when something
    /// else than a limit is stored, or when the stored limit is or becomes lower than the
    /// weight; `Unavailable`; `Lost`; `Forbidden`; `Misconfigured`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing in the queue.
    pub fn acquire(&self, weight: u32) -> Acquire<Permit> {
        self.ask(Ask::new("acquire", Claim::Permits(weight)))
    }

    /// Takes `weight` permits if they are free and the queue is empty; never waits.
    ///
    /// # Errors
    /// `Unavailable` when the server does not answer within the request timeout; else as
    /// [`acquire`](Semaphore::acquire).
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in the queue.
    pub fn try_acquire(&self, weight: u32) -> Acquire<Option<Permit>> {
        self.ask(Ask::try_new("try_acquire", Claim::Permits(weight)))
    }

    fn ask<T: Acquired>(&self, ask: Ask) -> Acquire<T> {
        Ask { limit: self.limit(), ..ask }.of(self.handle.clone())
    }

    pub(super) fn limit(&self) -> Limit {
        *self.limit.lock()
    }

    /// The limit that is stored on the coordinator; `None` before the first acquisition that
    /// brought one.
    ///
    /// # Errors
    /// `Conflict` when something else than a limit is stored; `Unavailable`; `Forbidden`; `Closed`;
    /// `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn stored_limit(&self) -> Result<Option<u32>> {
        let client = self.handle.client();
        let limit = client.serve(client.backend.limit(&self.handle.queue)).await;
        self.handle.in_context("stored_limit", limit)
    }

    /// Replaces the stored limit. From now on this handle and its clones expect the new limit, or
    /// store it, as they were made. Handles that follow the stored limit follow
    /// it. Other handles that expect exactly the old one get `Conflict` at their next acquisition.
    ///
    /// Waiters stay and follow the new limit: those that fit now are admitted at once, and one that
    /// asked for more than the limit ends with `Conflict`. A lower limit revokes nothing, and
    /// admits nobody until what is held fits it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `limit`; `Unavailable`; `OutcomeUnknown` when it may have been stored:
    /// this handle then keeps its limit; read [`stored_limit`](Semaphore::stored_limit), since
    /// another client may have set it too; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
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

    /// The holders and waiters, in order and with their data: no I/O.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes any client's node from the queue: for operators. As
    /// [`Mutex::force_release`](super::Mutex::force_release).
    ///
    /// # Errors
    /// `Unavailable`; `OutcomeUnknown` when it may have been carried out (harmless to repeat);
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(Semaphore, self => self.handle.queue, limit);

impl Permit {
    /// How many permits it holds.
    pub fn weight(&self) -> u32 {
        match self.0.claim() {
            Claim::Permits(weight) => weight,
            Claim::Exclusive | Claim::Shared => unreachable!("a semaphore's"),
        }
    }
}
