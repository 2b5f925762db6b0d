//! A fair mutex.

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
use crate::error::Result;
use crate::hold::{Fenced, Hold, guard};
use crate::reentrancy::Owner;

/// A fair mutex on a coordinator: not reentrant, admitted in the order of joining. Each hold has a
/// fencing token that rises from holder to holder.
///
/// *Protocol.* Every acquisition is one ephemeral node in the key's queue, ordered by the server.
/// The first is admitted, and a release wakes the next. The node's lease is renewed in the
/// background, and expires on the server when the client dies.
///
/// *Why it is safe.* The server admits one node at a time, and this client counts itself lost
/// earlier than the server can (LEASE-DEADLINE). No lease lock can exclude a process that is paused
/// between its look at the clock and its write: send [`token`](Fenced::token) with the write, and
/// let the resource refuse older ones.
///
/// *When the lease is lost*, the hold is lost: [`lost`](Hold::lost) becomes ready,
/// [`check`](Hold::check) answers `Lost`, and another client is admitted. A waiter loses its place,
/// and joins again by itself, at the tail.
///
/// *Source.* The lock of the ZooKeeper recipes (one sequential ephemeral node each, no herd), as in
/// Curator's `InterProcessMutex` and etcd's `concurrency.Mutex`; on Redis a queue of such nodes.
/// Fencing: M. Kleppmann, *How to do distributed locking* (2016), on what Redlock leaves open.
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
    pub(super) handle: QueueHandle,
}

impl Mutex {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle }
    }

    verb! {
        /// Waits its turn, without a deadline, as long as others hold. It first waits for this
        /// client's own earlier releases of the same key.
        ///
        /// While the coordinator does not answer, the acquisition keeps its place until its lease
        /// is lost, then joins anew. It gives up when the server has been silent for one TTL, and a
        /// last request for one request timeout: a TTL and a request timeout after the last answer,
        /// at the latest.
        ///
        /// A waiting acquisition stands in the queue, and may be admitted while it is not polled:
        /// poll it or drop it. One that is kept unpolled keeps everyone else out.
        ///
        /// # Errors
        /// `Unavailable`; `Lost` when another client removed the place in the queue (`Revoked`);
        /// `Forbidden`; `Conflict` when keys of another program stand in its place;
        /// `Misconfigured`; `Closed`; `RuntimeGone`.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped acquire leaves nothing in the queue; its node is removed in the
        /// background within a round trip. (On Redis and etcd a marker may stay beside the queue
        /// for ten minutes, so that a join that was under way does not land late.)
        acquire() -> MutexGuard, by take;
        acquire_within, acquire_with;
        /// Acquires if nobody holds or waits; never waits. `Ok(None)` if somebody does. If a
        /// backend's [`clean_try`](crate::Capabilities::clean_try) is false, two simultaneous tries
        /// on a free lock may both fail.
        ///
        /// # Errors
        /// `Unavailable` when there is no answer within the request timeout (if the lease expires
        /// meanwhile, the try is repeated under a new one); `Forbidden`; `Conflict` and
        /// `Misconfigured` as for an acquire; `Lost` when another client removed its node
        /// meanwhile; `Closed`; `RuntimeGone`.
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_acquire, try_acquire_with;
        /// Listings show the owner's label. The mutex is not reentrant: an owner that holds it and
        /// acquires it again waits for itself. A [`ReentrantMutex`](super::ReentrantMutex) of the
        /// same key lets the owner enter again.
        ///
        /// # Errors
        /// As [`acquire`](Self::acquire), and `InvalidArgument` naming `label` when the owner's is
        /// empty, longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// As [`acquire`](Self::acquire).
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    async fn take(&self, ask: Ask<'_>) -> Result<Option<MutexGuard>> {
        Ok(self.alone(ask).await?.map(|acquired| MutexGuard { acquired }))
    }

    /// As a member of a [`MultiLock`](super::MultiLock).
    pub(super) async fn take_held(&self, ask: Ask<'_>) -> Result<Option<Held>> {
        Ok(self.alone(ask).await?.map(Held::alone))
    }

    async fn alone(&self, ask: Ask<'_>) -> Result<Option<Acquired>> {
        self.handle.alone(ask, Claim::Exclusive, AskedLimit::Stored).await
    }

    /// Acquires, runs `work` under the hold, and releases it; `work` is dropped when the hold is
    /// lost. Work that may fail answers a `Result` of its own: `with_lock(…).await??`.
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
    /// As [`acquire`](Self::acquire); `Lost` with the reason when the hold was lost, also when only
    /// the release shows it; `Unknown` when the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with_lock<T>(&self, work: impl AsyncFnOnce(&MutexGuard) -> T) -> Result<T> {
        under(self.acquire().await?, work).await
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.handle.queue.name()
    }

    /// The queue's address on the coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// The holders and waiters, in order: at most `most` of them, behind the sequence number
    /// `after` (0: from the head).
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
    /// Take its sequence number from [`queue`](Mutex::queue). Answers whether the node was there.
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
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}

/// A held mutex. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a guard that is dropped at once releases the mutex at once"]
pub struct MutexGuard {
    acquired: Acquired,
}

impl MutexGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.acquired.waited
    }
}

guard!(MutexGuard by acquired.held, fenced);

impl fmt::Debug for MutexGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MutexGuard")
            .field("key", &self.key())
            .field("token", &self.token())
            .finish_non_exhaustive()
    }
}
