//! A fair read/write lock.

use std::fmt;
use std::time::Duration;

use super::acquire::Acquire;
use super::guards::{Held, ReadGuard, WriteGuard};
use super::queue_handle::QueueHandle;
use super::under::under;
use super::verb::{Ask, verb};
use crate::address::Address;
use crate::contracts::{AskedLimit, Entry, Patience};
use crate::error::Result;
use crate::reentrancy::{Mode, Owner};

/// A fair read/write lock on a coordinator: any number of readers, or one writer.
///
/// *Protocol.* Readers and writers stand in one queue, in the order of joining. A reader waits only
/// for the nearest writer ahead, a writer for everyone ahead. So later readers do not starve a
/// waiting writer, and the readers behind it are admitted together once it is done or gives up.
///
/// *Owners.* All holds of an owner that the calls name ([`read_as`](RwLock::read_as),
/// [`write_as`](RwLock::write_as)) share one node. The owner may read again past a waiting writer,
/// and if it writes, may write again and read, without a request. When only its reads remain, the
/// node is downgraded in its place. An owner that reads and asks to write gets
/// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock). A call without an owner excludes everyone,
/// in the scope of an owner ([`Owner::scope`]) too: a task that reads and asks to write, or reads
/// again behind a waiting writer, waits for itself.
///
/// For pauses and fencing, a writer is like the holder of a [`Mutex`](super::Mutex); the tokens of
/// readers identify them and fence nothing.
///
/// *When the lease is lost*, readers and writers lose their holds as a mutex's holder does; all
/// holds of an owner are lost together.
///
/// *Source.* The shared locks of the ZooKeeper recipes. The downgrade in place is Curator's, and on
/// ZooKeeper the layout is that of Curator's `InterProcessReadWriteLock`.
///
/// ```
/// # use latchwork_core::{connect, Config, Release, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let prices = coordinator.rwlock("prices")?;
/// let (one, other) = (prices.read().await?, prices.read().await?); // together
/// assert_eq!(one.release().await?, Release::Released);
/// assert_eq!(other.release().await?, Release::Released);
/// let alone = prices.write().await?;
/// assert_eq!(alone.release().await?, Release::Released);
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct RwLock {
    pub(super) handle: QueueHandle,
}

impl RwLock {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle }
    }

    verb! {
        /// Waits until no writer is ahead. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
        ///
        /// # Errors
        /// `Unavailable`; `Lost` when another client removed the place in the queue (`Revoked`);
        /// `Forbidden`; `Conflict` when keys of another program stand in its place;
        /// `Misconfigured`; `Closed`; `RuntimeGone`.
        ///
        /// # Cancel safety
        /// Cancel-safe: a dropped read leaves nothing in the queue.
        read() -> ReadGuard, by take_to_read;
        read_within, read_with;
        /// Reads if no writer holds or waits; never waits.
        ///
        /// # Errors
        /// As [`Mutex::try_acquire`](super::Mutex::try_acquire).
        ///
        /// # Cancel safety
        /// Cancel-safe: leaves nothing in the queue.
        try_read, try_read_with;
        /// It reads again without a request, past a waiting writer too, if this owner reads or
        /// writes.
        ///
        /// # Errors
        /// As [`read`](Self::read), and `InvalidArgument` naming `label` when the owner's is empty,
        /// longer than 4 KiB or has a control character.
        ///
        /// # Cancel safety
        /// As [`ReentrantMutex::acquire_as`](super::ReentrantMutex::acquire_as).
        read_as, read_as_with, try_read_as, try_read_as_with;
    }

    verb! {
        /// Waits until nobody is ahead. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
        ///
        /// # Errors
        /// As [`read`](Self::read).
        ///
        /// # Cancel safety
        /// As [`read`](Self::read). Readers that waited behind it are admitted.
        write() -> WriteGuard, by take_to_write;
        write_within, write_with;
        /// Writes if nobody holds or waits; never waits.
        ///
        /// # Errors
        /// As [`try_read`](Self::try_read).
        ///
        /// # Cancel safety
        /// As [`try_read`](Self::try_read).
        try_write, try_write_with;
        /// It writes again without a request if this owner writes.
        ///
        /// # Errors
        /// As [`write`](Self::write), `Deadlock` if this owner reads and does not write, and
        /// `InvalidArgument` naming `label` when the owner's is empty, longer than 4 KiB or has a
        /// control character.
        ///
        /// # Cancel safety
        /// As [`ReentrantMutex::acquire_as`](super::ReentrantMutex::acquire_as).
        write_as, write_as_with, try_write_as, try_write_as_with;
    }

    async fn take_to_read(&self, ask: Ask<'_>) -> Result<Option<ReadGuard>> {
        Ok(self.take(ask, Mode::Shared).await?.map(ReadGuard))
    }

    async fn take_to_write(&self, ask: Ask<'_>) -> Result<Option<WriteGuard>> {
        Ok(self.take(ask, Mode::Exclusive).await?.map(WriteGuard))
    }

    pub(super) async fn take(&self, ask: Ask<'_>, mode: Mode) -> Result<Option<Held>> {
        let Some(owner) = ask.owner else {
            return Ok(self.handle.alone(ask, mode.claim(), AskedLimit::Stored).await?.map(Held::alone));
        };
        let clock = self.handle.client().clock();
        let started = clock.now();
        let share = self.handle.enter(ask, owner, mode).await?;
        Ok(share.map(|share| Held::shared(share, clock.now().since(started))))
    }

    /// Acquires, runs `work` under the hold, and releases it; `work` is dropped when the hold is
    /// lost.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Lost` with the reason when the hold was lost, also when only the
    /// release shows it; `Unknown` when the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with_read<T>(&self, work: impl AsyncFnOnce(&ReadGuard) -> T) -> Result<T> {
        under(self.read().await?, work).await
    }

    /// Acquires, runs `work` under the hold, and releases it; `work` is dropped when the hold is
    /// lost.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Lost` with the reason when the hold was lost, also when only the
    /// release shows it; `Unknown` when the release was not confirmed.
    ///
    /// # Cancel safety
    /// A dropped call leaves nothing: its hold is released in the background.
    pub async fn with_write<T>(&self, work: impl AsyncFnOnce(&WriteGuard) -> T) -> Result<T> {
        under(self.write().await?, work).await
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
    /// Take its sequence number from [`queue`](RwLock::queue). Answers whether the node was there.
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

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}
