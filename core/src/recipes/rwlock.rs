//! A fair read/write lock.

use std::fmt;

use super::acquire::{Acquire, Line};
use super::guards::{Held, ReadGuard, WriteGuard};
use crate::address::Address;
use crate::contracts::{Entry, Patience};
use crate::coordinator::Coordinator;
use crate::error::Result;
use crate::reentrancy::{Mode, Owner};

/// A fair read/write lock on a coordinator: any number of readers, or one writer.
///
/// *Protocol.* Readers and writers stand in one queue, in the order of joining. A reader waits only for the nearest
/// writer before it, a writer for everybody before it. So a waiting writer is not starved by readers that come later, and
/// readers behind it come in together once it is done (or gives up).
///
/// *Owners.* In an owner's scope ([`Owner::scope`], or [`read_as`](RwLock::read_as) and [`write_as`](RwLock::write_as)) all holds
/// of the owner hang on one node: it may read again past a waiting writer, and who writes may write again and read,
/// without a request. Once it only reads, the node is downgraded in its place. Who reads and asks to write gets
/// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock). Without an owner each hold stands alone: a task that reads and
/// asks to write, or reads again behind a waiting writer, waits for itself.
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
/// # use latchwork_core::{connect, Config, Hold, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let prices = coordinator.rwlock("prices")?;
/// let (one, other) = (prices.read().await?, prices.read().await?); // together
/// one.release().await?;
/// other.release().await?;
/// let alone = prices.write().await?;
/// alone.release().await?;
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct RwLock {
    line: Line,
}

impl RwLock {
    pub(crate) fn new(coordinator: Coordinator, queue: Address) -> Self {
        Self { line: Line { coordinator, queue, recipe: "rwlock" } }
    }

    /// Waits until no writer is before it. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
    ///
    /// # Errors
    /// `Unavailable`; `Lost` when the place in the queue was removed by another, or forgotten by the server; `Forbidden`; `Conflict` when
    /// keys of another program stand in its place; `Misconfigured`; `Closed`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing in the queue.
    pub async fn read(&self) -> Result<ReadGuard> {
        self.read_with(Acquire::new()).await
    }

    /// Waits until nobody is before it. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
    ///
    /// # Errors
    /// As [`read`](RwLock::read), and `Deadlock` in the scope of an owner that reads and does not write.
    ///
    /// # Cancel safety
    /// As [`read`](RwLock::read). Readers that waited behind it come in.
    pub async fn write(&self) -> Result<WriteGuard> {
        self.write_with(Acquire::new()).await
    }

    /// As [`read`](RwLock::read), by an owner.
    ///
    /// # Errors
    /// As [`read`](RwLock::read), and `InvalidArgument` naming `label` where the owner's is empty, longer than 4 KiB or has a
    /// control character.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing in the queue; another task of the owner that waited for it takes over.
    pub async fn read_as(&self, owner: &Owner) -> Result<ReadGuard> {
        owner.scope(self.read()).await
    }

    /// As [`write`](RwLock::write), by an owner.
    ///
    /// # Errors
    /// As [`write`](RwLock::write), and `InvalidArgument` as [`read_as`](RwLock::read_as).
    ///
    /// # Cancel safety
    /// As [`read_as`](RwLock::read_as).
    pub async fn write_as(&self, owner: &Owner) -> Result<WriteGuard> {
        owner.scope(self.write()).await
    }

    /// Reads if no writer holds or waits; never waits.
    ///
    /// # Errors
    /// As [`Mutex::try_acquire`](super::Mutex::try_acquire).
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in the queue.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        self.try_read_with(Acquire::new()).await
    }

    /// Writes if nobody holds or waits; never waits.
    ///
    /// # Errors
    /// As [`try_read`](RwLock::try_read), and `Deadlock` in the scope of an owner that reads and does not write.
    ///
    /// # Cancel safety
    /// As [`try_read`](RwLock::try_read).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.try_write_with(Acquire::new()).await
    }

    /// Reads, with options, which count for the acquisition, not for a re-entry of an owner.
    ///
    /// # Errors
    /// As [`read`](RwLock::read), `Timeout`, and `InvalidArgument` naming the option.
    ///
    /// # Cancel safety
    /// As [`read`](RwLock::read).
    pub async fn read_with(&self, options: Acquire) -> Result<ReadGuard> {
        self.wait("read", options, Mode::Shared).await.map(ReadGuard)
    }

    /// Writes, with options, which count for the acquisition, not for a re-entry of an owner.
    ///
    /// # Errors
    /// As [`write`](RwLock::write), `Timeout`, and `InvalidArgument` naming the option.
    ///
    /// # Cancel safety
    /// As [`write`](RwLock::write).
    pub async fn write_with(&self, options: Acquire) -> Result<WriteGuard> {
        self.wait("write", options, Mode::Exclusive).await.map(WriteGuard)
    }

    /// Tries to read, with options.
    ///
    /// # Errors
    /// As [`try_read`](RwLock::try_read), and `InvalidArgument` naming the option.
    ///
    /// # Cancel safety
    /// As [`try_read`](RwLock::try_read).
    pub async fn try_read_with(&self, options: Acquire) -> Result<Option<ReadGuard>> {
        Ok(self.take("try_read", options, Mode::Shared, Patience::Try).await?.map(ReadGuard))
    }

    /// Tries to write, with options.
    ///
    /// # Errors
    /// As [`try_write`](RwLock::try_write), and `InvalidArgument` naming the option.
    ///
    /// # Cancel safety
    /// As [`try_read`](RwLock::try_read).
    pub async fn try_write_with(&self, options: Acquire) -> Result<Option<WriteGuard>> {
        Ok(self.take("try_write", options, Mode::Exclusive, Patience::Try).await?.map(WriteGuard))
    }

    async fn wait(&self, operation: &'static str, options: Acquire, mode: Mode) -> Result<Held> {
        match self.take(operation, options, mode, Patience::Wait).await? {
            Some(held) => Ok(held),
            None => unreachable!("only a try is refused"),
        }
    }

    async fn take(
        &self,
        operation: &'static str,
        options: Acquire,
        mode: Mode,
        patience: Patience,
    ) -> Result<Option<Held>> {
        let Some(owner) = Owner::current() else {
            let acquired = self.line.ask(operation, options, mode.claim(), None, patience).await?;
            return Ok(acquired.map(Held::alone));
        };
        let clock = self.line.coordinator.clock();
        let started = clock.now();
        let share = self.line.enter(operation, &owner, mode, options, patience).await?;
        Ok(share.map(|share| Held::shared(share, clock.now().since(started))))
    }

    /// The key, as it was given.
    pub fn key(&self) -> &str {
        self.line.queue.name()
    }

    /// Where it lives on the coordinator.
    pub fn address(&self) -> &Address {
        &self.line.queue
    }

    /// Who holds and who waits, in order, as [`Mutex::queue`](super::Mutex::queue).
    ///
    /// # Errors
    /// `Unavailable`; `Forbidden`; `Closed`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.line.list(after, most).await
    }

    /// Removes a node of the queue, whoever has it, and lets in whom it was in the way of: for operators. Take its sequence
    /// number from [`queue`](RwLock::queue). Its owner hears `Revoked`, at once where the backend can tell it, but works on
    /// until it does: only fencing keeps its last writes out. Answers whether the node was there.
    ///
    /// # Errors
    /// `Unavailable`; `Unknown` when it may have been carried out (harmless to repeat); `Forbidden`; `Closed`.
    ///
    /// # Cancel safety
    /// A dropped one may or may not have been carried out.
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.line.force_release(sequence).await
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("address", &self.line.queue).finish_non_exhaustive()
    }
}
