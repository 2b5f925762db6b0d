//! A fair semaphore with weighted permits.

use std::fmt;
use std::time::Duration;

use super::acquire::Acquire;
use super::guards::Held;
use super::queue_handle::{Acquired, QueueHandle};
use super::under::under;
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::contracts::{AskedLimit, Entry, Patience};
use crate::decide::Claim;
use crate::error::{Error, Result};
use crate::hold::{Hold, guard};
use crate::reentrancy::Owner;
use crate::token::Token;

/// A fair semaphore on a coordinator: at most `limit` permits are held at a time. It limits
/// concurrency, not rate.
///
/// *Protocol.* An acquisition takes a weight, all of it or none, and is admitted in the order of
/// joining: nothing overtakes a waiter that does not fit yet. The first acquisition stores the
/// limit on the coordinator, where it stays; [`set_limit`](Semaphore::set_limit) changes it under
/// load. A handle's constructor decides how it relates to the stored limit:
///
/// | made by | stores if there is none | if another limit is stored |
/// |---|---|---|
/// | [`semaphore_or_stored(key, 3)`](crate::Coordinator::semaphore_or_stored) | 3 | follows the stored limit |
/// | [`semaphore(key, 3)`](crate::Coordinator::semaphore) | 3 | `Conflict`: two versions of a service cannot disagree |
/// | [`semaphore_as_stored(key)`](crate::Coordinator::semaphore_as_stored) | nothing: `Conflict` | follows the stored limit |
///
/// *Source.* Curator's `InterProcessSemaphoreV2` has leases on permits; the order, the weights and
/// the stored limit are this library's.
///
/// *When the lease is lost*, another client may hold the permit at once: as with every lease lock,
/// a paused process can work on beside its successor for a moment. The tokens of permits identify
/// them and fence nothing.
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
    pub(super) handle: QueueHandle,
    limit: AskedLimit,
}

impl Semaphore {
    pub(crate) fn new(handle: QueueHandle, limit: AskedLimit) -> Result<Self> {
        if limit.to_store() == Some(0) {
            return Err(Error::invalid("limit", "must not be zero").on(handle.queue.name()));
        }
        Ok(Self { handle, limit })
    }

    verb! {
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
        acquire(weight: u32) -> Permit, by take;
        acquire_within, acquire_with;
        /// Takes `weight` permits if they are free and nobody waits; never waits.
        ///
        /// # Errors
        /// `Unavailable` when there is no answer within the request timeout; else as
        /// [`acquire`](Semaphore::acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_acquire, try_acquire_with;
        /// Listings show the owner's label. Each acquisition takes permits of its own.
        ///
        /// # Errors
        /// As [`acquire`](Self::acquire), and `InvalidArgument` naming `label` when the owner's is
        /// empty, longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// As [`acquire`](Self::acquire).
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    async fn take(&self, weight: u32, ask: Ask<'_>) -> Result<Option<Permit>> {
        let acquired = self.alone(weight, ask).await?;
        Ok(acquired.map(|acquired| Permit { acquired, weight }))
    }

    /// As a member of a [`MultiLock`](super::MultiLock).
    pub(super) async fn take_held(&self, weight: u32, ask: Ask<'_>) -> Result<Option<Held>> {
        Ok(self.alone(weight, ask).await?.map(Held::alone))
    }

    async fn alone(&self, weight: u32, ask: Ask<'_>) -> Result<Option<Acquired>> {
        let claim = self.claim(ask.operation, weight)?;
        self.handle.alone(ask, claim, self.limit).await
    }

    /// The limit that this handle expects; `None` if it follows the stored one.
    pub fn limit(&self) -> Option<u32> {
        self.limit.exactly()
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
        let in_context = |error: Error| error.in_operation("stored_limit").on(self.key());
        let client = self.handle.client();
        client.serve(client.backend.limit(&self.handle.queue)).await.map_err(in_context)
    }

    /// Stores another limit, whatever is stored. From now on this handle expects it, or stores it
    /// if there is none, as it was made. Handles that follow the stored limit follow it. Handles of
    /// [`semaphore`](crate::Coordinator::semaphore) that expect the old one, clones of this one
    /// included, get `Conflict` at their next acquisition.
    ///
    /// Waiters stay and follow the new limit: those that fit now are admitted at once, and one that
    /// asked for more than the limit ends with `Conflict`. A lower limit revokes nothing, and
    /// admits nobody until what is held fits it.
    ///
    /// # Errors
    /// `InvalidArgument` naming `limit`; `Unavailable`; `Unknown` when it may have been stored:
    /// this handle then keeps its limit; read [`stored_limit`](Semaphore::stored_limit), since
    /// another client may have set it too; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
    pub async fn set_limit(&mut self, limit: u32) -> Result<()> {
        let in_context = |error: Error| error.in_operation("set_limit").on(self.key());
        if limit == 0 {
            return Err(in_context(Error::invalid("limit", "must not be zero")));
        }
        let client = self.handle.client();
        client.serve(client.backend.set_limit(&self.handle.queue, limit)).await.map_err(in_context)?;
        self.limit = match self.limit {
            AskedLimit::Exactly(_) => AskedLimit::Exactly(limit),
            AskedLimit::UnlessStored(_) => AskedLimit::UnlessStored(limit),
            AskedLimit::Stored => AskedLimit::Stored,
        };
        Ok(())
    }

    /// Acquires, runs `work` under the hold, and releases it; `work` is dropped when the hold is
    /// lost.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` with the reason when the hold was lost, also when only
    /// the release shows it; `Unknown` when the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with_permits<T>(&self, weight: u32, work: impl AsyncFnOnce(&Permit) -> T) -> Result<T> {
        under(self.acquire(weight).await?, work).await
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// The queue's address on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// The holders and waiters, in order, as [`Mutex::queue`](super::Mutex::queue).
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.handle.list(after, most).await
    }

    /// Removes any client's node from the queue, and admits those that it blocked: for operators.
    /// Take its sequence number from [`queue`](Semaphore::queue). Answers whether the node was
    /// there.
    ///
    /// Its owner hears `Revoked`, at once if the backend can notify it, and works on until then:
    /// only fencing keeps its last writes out.
    ///
    /// # Errors
    /// `Unavailable`; `Unknown` when it may have been carried out (harmless to repeat);
    /// `Forbidden`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// A dropped call may or may not have been carried out.
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

/// Held permits. Released by [`release`](Hold::release), or in the background when they are
/// dropped.
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

    /// The number that identifies this hold on the server. It is no fence: others hold beside it.
    pub fn token(&self) -> Token {
        self.acquired.held.token()
    }
}

guard!(Permit by acquired.held);

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("weight", &self.weight).field("held", &self.acquired.held).finish()
    }
}
