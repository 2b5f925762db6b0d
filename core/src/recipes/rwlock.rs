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
use crate::coordinator::Coordinator;
use crate::error::Result;
use crate::reentrancy::{Mode, Owner};

/// A fair read/write lock on a coordinator: any number of readers, or one writer.
///
/// *Protocol.* Readers and writers stand in one queue, in the order of joining. A reader waits only for the nearest
/// writer before it, a writer for everybody before it. So a waiting writer is not starved by readers that come later, and
/// readers behind it come in together once it is done (or gives up).
///
/// *Owners.* All holds of an owner that the calls name ([`read_as`](RwLock::read_as), [`write_as`](RwLock::write_as)) hang on one
/// node: it may read again past a waiting writer, and who writes may write again and read, without a request. Once it only
/// reads, the node is downgraded in its place. Who reads and asks to write gets
/// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock). Without an owner in the call each hold stands alone and excludes, in the
/// scope of an owner ([`Owner::scope`]) too: a task that reads and asks to write, or reads again behind a waiting writer, waits for
/// itself.
///
/// What was said of the [`Mutex`](super::Mutex) about pauses and fencing holds for writers; the tokens of readers
/// identify them and fence nothing.
///
/// *When the lease is lost*, readers and writers are told as a mutex's holder is; all holds of an owner are lost together.
///
/// *Source.* The shared locks of the ZooKeeper recipes. The downgrade in place is Curator's.
/// On ZooKeeper the layout is that of Curator's `InterProcessReadWriteLock`.
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
    handle: QueueHandle,
}

impl RwLock {
    pub(crate) fn new(coordinator: Coordinator, queue: Address) -> Self {
        Self { handle: QueueHandle { coordinator, queue, recipe: "rwlock" } }
    }

    verb! {
        /// Waits until no writer is before it. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
        ///
        /// # Errors
        /// `Unavailable`; `Lost` when the place in the queue was removed by another (`Revoked`); `Forbidden`; `Conflict`
        /// when keys of another program stand in its place; `Misconfigured`; `Closed`; `RuntimeGone`.
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
        /// It reads again without a request, past a waiting writer too, where this owner reads or writes.
        ///
        /// # Errors
        /// As [`read`](Self::read), and `InvalidArgument` naming `label` where the owner's is empty, longer than 4 KiB or has a
        /// control character.
        ///
        /// # Cancel safety
        /// As [`ReentrantMutex::acquire_as`](super::ReentrantMutex::acquire_as).
        read_as, read_as_with, try_read_as, try_read_as_with;
    }

    verb! {
        /// Waits until nobody is before it. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
        ///
        /// # Errors
        /// As [`read`](Self::read).
        ///
        /// # Cancel safety
        /// As [`read`](Self::read). Readers that waited behind it come in.
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
        /// It writes again without a request where this owner writes.
        ///
        /// # Errors
        /// As [`write`](Self::write), `Deadlock` where this owner reads and does not write, and `InvalidArgument` naming `label` where the owner's is empty, longer than 4 KiB or has a
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

    async fn take(&self, ask: Ask<'_>, mode: Mode) -> Result<Option<Held>> {
        let Some(owner) = ask.owner else {
            return Ok(self.handle.alone(ask, mode.claim(), AskedLimit::Stored).await?.map(Held::alone));
        };
        let clock = self.handle.coordinator.clock();
        let started = clock.now();
        let share = self.handle.enter(ask, owner, mode).await?;
        Ok(share.map(|share| Held::shared(share, clock.now().since(started))))
    }

    /// Acquires, runs `work` under the hold, and releases it: the work is dropped when the hold is lost.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Lost` with the reason when it was lost, also when the server says so only at the release; `Unknown`
    /// when the release was not confirmed.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing: what is held is released in the background.
    pub async fn with_read<T>(&self, work: impl AsyncFnOnce(&ReadGuard) -> T) -> Result<T> {
        under(self.read().await?, work).await
    }

    /// Acquires, runs `work` under the hold, and releases it: the work is dropped when the hold is lost.
    ///
    /// # Errors
    /// As [`write`](Self::write); `Lost` with the reason when it was lost, also when the server says so only at the release; `Unknown`
    /// when the release was not confirmed.
    ///
    /// # Cancel safety
    /// Dropped, it leaves nothing: what is held is released in the background.
    pub async fn with_write<T>(&self, work: impl AsyncFnOnce(&WriteGuard) -> T) -> Result<T> {
        under(self.write().await?, work).await
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
    /// number from [`queue`](RwLock::queue). Its owner hears `Revoked`, at once where the backend can tell it, but works on
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
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("address", &self.handle.queue).finish_non_exhaustive()
    }
}
