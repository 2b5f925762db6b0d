//! A fair read/write lock.

use std::fmt;
use std::time::Duration;

use super::acquire::{Acquire, Acquired, Line};
use crate::address::Address;
use crate::contracts::{Entry, Patience};
use crate::coordinator::Coordinator;
use crate::decide::Claim;
use crate::error::Result;
use crate::hold::{Fenced, Hold};
use crate::holding::Holding;
use crate::token::Token;

/// A fair read/write lock on a coordinator: any number of readers, or one writer.
///
/// *Protocol.* Readers and writers stand in one queue, in the order of joining. A reader waits only for the nearest
/// writer before it, a writer for everybody before it. So a waiting writer is not starved by readers that come later, and
/// readers behind it come in together once it is done (or gives up).
///
/// Each hold stands alone: a task that reads and asks to write, or reads again behind a waiting writer, waits for
/// itself. What was said of the [`Mutex`](super::Mutex) about pauses and fencing holds for writers; the tokens of readers
/// identify them and fence nothing.
///
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
    /// `Unavailable`; `Lost` when the place in the queue was removed by another; `Closed`; `Misconfigured`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped acquire leaves nothing.
    pub async fn read(&self) -> Result<ReadGuard> {
        self.read_with(Acquire::new()).await
    }

    /// Waits until nobody is before it. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
    ///
    /// # Errors
    /// As [`read`](RwLock::read).
    ///
    /// # Cancel safety
    /// As [`read`](RwLock::read). Readers that waited behind it come in.
    pub async fn write(&self) -> Result<WriteGuard> {
        self.write_with(Acquire::new()).await
    }

    /// Reads if no writer holds or waits; never waits.
    ///
    /// # Errors
    /// `Unavailable` when there is no answer within the request timeout; `Closed`.
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        self.try_read_with(Acquire::new()).await
    }

    /// Writes if nobody holds or waits; never waits.
    ///
    /// # Errors
    /// As [`try_read`](RwLock::try_read).
    ///
    /// # Cancel safety
    /// As [`try_read`](RwLock::try_read).
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        self.try_write_with(Acquire::new()).await
    }

    /// Reads, with options.
    ///
    /// # Errors
    /// As [`read`](RwLock::read), `Timeout`, and `InvalidArgument` naming the option.
    ///
    /// # Cancel safety
    /// As [`read`](RwLock::read).
    pub async fn read_with(&self, options: Acquire) -> Result<ReadGuard> {
        self.line.wait("read", options, Claim::Shared, None).await.map(ReadGuard)
    }

    /// Writes, with options.
    ///
    /// # Errors
    /// As [`read_with`](RwLock::read_with).
    ///
    /// # Cancel safety
    /// As [`write`](RwLock::write).
    pub async fn write_with(&self, options: Acquire) -> Result<WriteGuard> {
        self.line.wait("write", options, Claim::Exclusive, None).await.map(WriteGuard)
    }

    /// Tries to read, with options.
    ///
    /// # Errors
    /// As [`try_read`](RwLock::try_read), and `InvalidArgument` naming the option.
    ///
    /// # Cancel safety
    /// As [`try_read`](RwLock::try_read).
    pub async fn try_read_with(&self, options: Acquire) -> Result<Option<ReadGuard>> {
        Ok(self.line.ask("try_read", options, Claim::Shared, None, Patience::Try).await?.map(ReadGuard))
    }

    /// Tries to write, with options.
    ///
    /// # Errors
    /// As [`try_read_with`](RwLock::try_read_with).
    ///
    /// # Cancel safety
    /// As [`try_read`](RwLock::try_read).
    pub async fn try_write_with(&self, options: Acquire) -> Result<Option<WriteGuard>> {
        Ok(self.line.ask("try_write", options, Claim::Exclusive, None, Patience::Try).await?.map(WriteGuard))
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
    /// `Unavailable`; `Forbidden`.
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.line.list(after, most).await
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").field("address", &self.line.queue).finish_non_exhaustive()
    }
}

/// Holds for reading, beside other readers. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct ReadGuard(Acquired);

/// Holds for writing, alone. Released by [`release`](Hold::release), or in the background when it is dropped.
#[must_use = "a guard that is dropped at once releases at once"]
pub struct WriteGuard(Acquired);

impl ReadGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }

    /// The number that identifies this hold on the server. Not a fence: readers hold together.
    pub fn token(&self) -> Token {
        self.0.holding.token()
    }
}

impl WriteGuard {
    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.0.waited
    }
}

impl Hold for ReadGuard {
    fn holding(&self) -> &Holding {
        &self.0.holding
    }
}

impl Hold for WriteGuard {
    fn holding(&self) -> &Holding {
        &self.0.holding
    }
}

impl Fenced for WriteGuard {
    fn token(&self) -> Token {
        self.0.holding.token()
    }
}

impl fmt::Debug for ReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.0.holding).finish()
    }
}

impl fmt::Debug for WriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&self.0.holding).finish()
    }
}
