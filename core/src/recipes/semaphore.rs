//! A fair semaphore with weighted permits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::acquire::Acquire;
use super::queue_handle::{Acquired, QueueHandle};
use super::under::under;
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::contracts::{AskedLimit, Entry, Patience};
use crate::coordinator::Coordinator;
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::hold::{Hold, Release, own_methods};
use crate::holding::Tenure;
use crate::reentrancy::Owner;
use crate::token::Token;

/// A fair semaphore on a coordinator: at most `limit` permits are held at a time. It limits concurrency, not rate.
///
/// *Protocol.* An acquisition takes a weight, all of it or none, and is admitted in the order of joining: nobody
/// overtakes one that does not fit yet. The limit is stored on the coordinator by the first acquisition and stays.
/// [`set_limit`](Semaphore::set_limit) changes it under load. A handle says how it stands to the stored limit:
///
/// | made by | stores the limit where none is | another limit is stored |
/// |---|---|---|
/// | [`semaphore_or_stored(key, 3)`](Coordinator::semaphore_or_stored) | 3 | follows the stored limit |
/// | [`semaphore(key, 3)`](Coordinator::semaphore) | 3 | `Conflict`: two versions of a service never believe two numbers |
/// | [`semaphore_as_stored(key)`](Coordinator::semaphore_as_stored) | nothing: `Conflict` | follows the stored limit |
///
/// *Source.* Curator's `InterProcessSemaphoreV2` has leases on permits; the order, the weights and the stored limit are this
/// library's.
///
/// A permit that is lost (its lease ran out) may be held by another at once: as with every lease lock, a paused process
/// can work on beside its successor for a moment. The tokens of permits identify them and fence nothing.
///
/// ```
/// # use latchwork_core::{connect, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let exports = coordinator.semaphore_or_stored("exports", 3)?;
/// let (light, heavy) = (exports.acquire(1).await?, exports.acquire(2).await?);
/// assert!(exports.try_acquire(1).await?.is_none());
/// assert_eq!(light.release().await?, Release::Released);
/// assert_eq!(heavy.release().await?, Release::Released);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Semaphore {
    handle: QueueHandle,
    limit: AskedLimit,
}

impl Semaphore {
    pub(crate) fn new(coordinator: Coordinator, queue: Address, limit: AskedLimit) -> Result<Self> {
        if limit.to_store() == Some(0) {
            return Err(Error::invalid("limit", "must not be zero").on(queue.name()));
        }
        Ok(Self { handle: QueueHandle { coordinator, queue, recipe: "semaphore" }, limit })
    }

    verb! {
        /// Waits until so many permits are free and it is its turn. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
        ///
        /// # Errors
        /// `InvalidArgument` naming `weight` when it is zero or above the limit; `Conflict` when another limit is stored, when
        /// none is and this handle only follows it, when something else than a limit is stored, or when the stored limit is or becomes
        /// lower than the weight; `Unavailable`; `Lost`; `Forbidden`; `Misconfigured`; `Closed`; `RuntimeGone`.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in the queue.
        acquire(weight: u32) -> Permit, by take;
        acquire_within, acquire_with;
        /// Takes so many permits if they are free and nobody waits; never waits.
        ///
        /// # Errors
        /// `Unavailable` when there is no answer within the request timeout; else as [`acquire`](Semaphore::acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_acquire, try_acquire_with;
        /// Its label is what listings show. Each acquisition takes permits of its own.
        ///
        /// # Errors
        /// As [`acquire`](Self::acquire), and `InvalidArgument` naming `label` where the owner's is empty, longer than 4 KiB or has a
        /// control character.
        ///
        /// # Cancel safety
        /// As [`acquire`](Self::acquire).
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    async fn take(&self, weight: u32, ask: Ask<'_>) -> Result<Option<Permit>> {
        let claim = self.claim(ask.operation, weight)?;
        let acquired = self.handle.alone(ask, claim, self.limit).await?;
        Ok(acquired.map(|acquired| Permit { acquired, weight }))
    }

    /// The limit that this handle expects; `None`: it follows the stored one.
    pub fn limit(&self) -> Option<u32> {
        self.limit.exactly()
    }

    /// The limit that is stored on the coordinator; `None` before the first acquisition that brought one.
    ///
    /// # Errors
    /// `Conflict` when something else than a limit is stored; `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn stored_limit(&self) -> Result<Option<u32>> {
        let told = |error: Error| error.in_operation("stored_limit").on(self.key());
        let coordinator = &self.handle.coordinator;
        coordinator.serve(coordinator.backend().limit(&self.handle.queue)).await.map_err(told)
    }

    /// Stores another limit, whatever is stored. This handle expects it from now on, or stores it where none is any more, as it was
    /// made. Handles that follow the stored limit follow it. Those of [`semaphore`](Coordinator::semaphore) that expect the old one get
    /// `Conflict` at their next acquisition; clones of this one too.
    ///
    /// Waiters stay and follow it: who fits now is admitted at once, and who asked for more than the limit ends with
    /// `Conflict`. A lower limit revokes nobody, and admits nobody until what is held fits it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `limit`; `Unavailable`; `Unknown` when it may have been stored: read
    /// [`stored_limit`](Semaphore::stored_limit), since another may have set it too. This handle keeps its limit then;
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    pub async fn set_limit(&mut self, limit: u32) -> Result<()> {
        let told = |error: Error| error.in_operation("set_limit").on(self.key());
        if limit == 0 {
            return Err(told(Error::invalid("limit", "must not be zero")));
        }
        let coordinator = &self.handle.coordinator;
        coordinator.serve(coordinator.backend().set_limit(&self.handle.queue, limit)).await.map_err(told)?;
        self.limit = match self.limit {
            AskedLimit::Exactly(_) => AskedLimit::Exactly(limit),
            AskedLimit::UnlessStored(_) => AskedLimit::UnlessStored(limit),
            AskedLimit::Stored => AskedLimit::Stored,
        };
        Ok(())
    }

    /// Acquires, runs `work` under the hold, and releases it: the work is dropped when the hold is lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` with the reason when it was lost, also when the server says so only at the release; `Unknown`
    /// when the release was not confirmed.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing: what is held is released in the background.
    pub async fn with_permits<T>(&self, weight: u32, work: impl AsyncFnOnce(&Permit) -> T) -> Result<T> {
        under(self.acquire(weight).await?, work).await
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// Where it lives on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// Who holds and who waits, in order, as [`Mutex::queue`](super::Mutex::queue).
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.handle.list(after, most).await
    }

    /// Removes a node of the queue, whoever has it, and lets in whom it was in the way of: for operators. Take its sequence
    /// number from [`queue`](Semaphore::queue). Its owner hears `Revoked`, at once where the backend can tell it, but works on
    /// until it does: only fencing keeps its last writes out. Answers whether the node was there.
    ///
    /// # Errors
    /// `Unavailable`; `Unknown` when it may have been carried out (harmless to repeat); `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }

    fn claim(&self, operation: &'static str, weight: u32) -> Result<Claim> {
        let why = match weight {
            0 => "must not be zero".to_owned(),
            weight => match self.limit.exactly() {
                Some(limit) if weight > limit => format!("is {weight}, above the limit {limit}"),
                _ => return Ok(Claim::Permits(weight)),
            },
        };
        Err(Error::invalid("weight", why).in_operation(operation).on(self.key()))
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("address", &self.handle.queue)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

/// Held permits. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "permits that are dropped at once are released at once"]
pub struct Permit {
    acquired: Acquired,
    weight: u32,
}

impl Permit {
    /// How many permits it holds.
    pub fn weight(&self) -> u32 {
        self.weight
    }

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.acquired.waited
    }

    /// The number that identifies this hold on the server. Not a fence: others hold beside it.
    pub fn token(&self) -> Token {
        self.acquired.holding.token()
    }
}

own_methods!(Permit);

#[async_trait]
impl Hold for Permit {
    fn tenure(&self) -> &Arc<Tenure> {
        &self.acquired.holding.tenure
    }

    async fn release(&self) -> Result<Release> {
        self.acquired.holding.release().await
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit")
            .field("weight", &self.weight)
            .field("holding", &self.acquired.holding)
            .finish()
    }
}
