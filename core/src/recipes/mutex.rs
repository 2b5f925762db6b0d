//! A fair mutex.

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
use crate::error::Result;
use crate::hold::{Fenced, Hold, Release, own_methods};
use crate::holding::{Holding, Tenure};
use crate::reentrancy::Owner;
use crate::token::Token;

/// A fair mutex on a coordinator: not reentrant, admitted in the order of joining, each hold with a
/// fencing token that rises from holder to holder.
///
/// *Protocol.* Every acquisition is one ephemeral node in the key's queue, ordered by the server; the
/// first is admitted, and a release wakes the next. The node hangs on a lease that is renewed in the background and
/// taken back by the server when the client dies.
///
/// *Why it is safe.* The server admits one node at a time, and this client counts itself lost earlier than the server can
/// (LEASE-DEADLINE). What no lease lock can exclude is a process that is paused between its look at the clock and
/// its write: send [`token`](Fenced::token) with the write and let the resource refuse older ones.
///
/// *When the lease is lost*, so is the hold: [`lost`](Hold::lost) becomes ready, [`check`](Hold::check) answers `Lost`, and another
/// is admitted. A waiter loses its place, and joins anew by itself, at the tail.
///
/// *Source.* The lock of the ZooKeeper recipes (a sequential ephemeral node each, no herd), as Curator's
/// `InterProcessMutex` and etcd's `concurrency.Mutex` have it; on Redis a queue of such nodes. Fencing: M. Kleppmann, *How to
/// do distributed locking* (2016), on what Redlock leaves open.
///
/// A handle is cheap to make and to clone; making one does no I/O.
///
/// ```
/// # use latchwork_core::{connect, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let invoices = coordinator.mutex("invoices/2026-11")?;
/// let hold = invoices.acquire().await?;
/// println!("mine, with token {}", hold.token());
/// assert_eq!(hold.release().await?, Release::Released);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Mutex {
    handle: QueueHandle,
}

impl Mutex {
    pub(crate) fn new(coordinator: Coordinator, queue: Address) -> Self {
        Self { handle: QueueHandle { coordinator, queue, recipe: "mutex" } }
    }

    verb! {
        /// Waits its turn, without a deadline: as long as others hold. While the coordinator does not answer,
        /// it keeps its place until its lease is lost, then joins anew, and gives up when the server has been silent for one TTL, and
        /// what is asked last for one request timeout: it ends a TTL and a request timeout after the last answer, at the latest.
        /// What this client gave back of the same key before is waited for first.
        ///
        /// While it waits it stands in the queue, and may be admitted when nobody looks: poll it, or drop it. One that is kept and not
        /// polled keeps everybody else out.
        ///
        /// # Errors
        /// `Unavailable`; `Lost` when the place in the queue was removed by another (`Revoked`); `Forbidden`; `Conflict` when
        /// keys of another program stand in its place; `Misconfigured`; `Closed`; `RuntimeGone`.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in the queue; its node is gone in the background within a round trip. (On
        /// Redis and etcd a marker may stay beside the queue for ten minutes: a join that was under way must not land late.)
        acquire() -> MutexGuard, by take;
        acquire_within, acquire_with;
        /// Acquires if nobody holds or waits; never waits. `Ok(None)`: somebody does. Where a backend's
        /// [`clean_try`](crate::Capabilities::clean_try) is false, two tries at one instant on a free lock may both fail.
        ///
        /// # Errors
        /// `Unavailable` when there is no answer within the request timeout (where the lease expires meanwhile, it is asked again under
        /// a new one); `Forbidden`; `Conflict` and `Misconfigured` as for those who wait; `Lost` when its node was removed by another
        /// meanwhile; `Closed`; `RuntimeGone`.
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_acquire, try_acquire_with;
        /// Its label is what listings show. The mutex is not reentrant: an owner who holds it and acquires it again waits for itself;
        /// a [`ReentrantMutex`](super::ReentrantMutex) of the same key lets it enter again.
        ///
        /// # Errors
        /// As [`acquire`](Self::acquire), and `InvalidArgument` naming `label` where the owner's is empty, longer than 4 KiB or has a
        /// control character.
        ///
        /// # Cancel safety
        /// As [`acquire`](Self::acquire).
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    async fn take(&self, ask: Ask<'_>) -> Result<Option<MutexGuard>> {
        Ok(self.handle.alone(ask, Claim::Exclusive, AskedLimit::Stored).await?.map(Self::guard))
    }

    /// Acquires, runs `work` under the hold, and releases it: the work is dropped when the hold is lost. Work that may fail answers a
    /// `Result` of its own: `with_lock(…).await??`.
    ///
    /// ```
    /// # use latchwork_core::{connect, Config, memory};
    /// # async fn example() -> Result<(), latchwork_core::Error> {
    /// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
    /// let invoices = coordinator.mutex("invoices/2026-11")?;
    /// let fence = invoices.with_lock(async |hold| hold.token()).await?;
    /// # assert!(fence < invoices.acquire().await?.token());
    /// # coordinator.close().await }
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` with the reason when it was lost, also when the server says so only at the release; `Unknown`
    /// when the release was not confirmed.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing: what is held is released in the background.
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&MutexGuard) -> T) -> Result<T> {
        under(self.acquire().await?, work).await
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// Where it lives on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// Who holds and who waits, in order: at most `most` of them, behind the sequence number `after` (0: from the head).
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
    /// number from [`queue`](Mutex::queue). Its owner hears `Revoked`, at once where the backend can tell it, but works on
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

    fn guard(acquired: Acquired) -> MutexGuard {
        let Acquired { holding, waited } = acquired;
        MutexGuard { token: holding.token(), holding, waited }
    }
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}

/// A held mutex. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a guard that is dropped at once releases the mutex at once"]
pub struct MutexGuard {
    holding: Holding,
    token: Token,
    waited: Duration,
}

impl MutexGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.waited
    }
}

own_methods!(MutexGuard, fenced);

#[async_trait]
impl Hold for MutexGuard {
    fn tenure(&self) -> &Arc<Tenure> {
        &self.holding.tenure
    }

    async fn release(&self) -> Result<Release> {
        self.holding.release().await
    }
}

impl Fenced for MutexGuard {
    fn token(&self) -> Token {
        self.token
    }
}

impl fmt::Debug for MutexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard")
            .field("key", &self.key())
            .field("token", &self.token)
            .finish_non_exhaustive()
    }
}
