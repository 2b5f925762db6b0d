//! A fair read/write lock.

use std::sync::Arc;

use super::acquire::Acquire;
use super::ask::Ask;
use super::guards::{ReadGuard, WriteGuard};
use super::handles::addressed;
use super::queue_handle::QueueHandle;
use crate::contracts::QueueEntry;
use crate::decide::Claim;
use crate::error::Result;
use crate::listing::Listing;

/// A fair read/write lock on a coordinator: any number of readers, or one writer.
///
/// *Protocol.* Readers and writers stand in one queue, in the order of joining. A reader waits only
/// for the nearest writer ahead, a writer for everyone ahead. So later readers do not starve a
/// waiting writer, and the readers behind it are admitted together once it is done or gives up.
///
/// *Owners.* All holds of an owner that the calls name ([`Acquire::by`]) share one node. The owner
/// may read again past a waiting writer, and if it writes, may write again and read, without a
/// request. When only its reads remain, the node is downgraded in its place. An owner that reads and asks to write gets
/// [`ErrorKind::Deadlock`](crate::ErrorKind::Deadlock). A call without an owner excludes everyone:
/// a task that reads and asks to write, or reads again behind a waiting writer, waits for itself.
///
/// For pauses and fencing, a writer is like the holder of a [`Mutex`](super::Mutex); readers
/// have no token.
///
/// *When the lease is lost*, readers and writers lose their holds as a mutex's holder does; all
/// holds of an owner are lost together.
///
/// *Source.* The shared locks of the ZooKeeper recipes. The downgrade in place is Curator's, and on
/// ZooKeeper the layout is that of Curator's `InterProcessReadWriteLock`.
///
/// ```
/// # use latchwork_core::{connect, Config, memory};
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
    pub(super) handle: Arc<QueueHandle>,
}

impl RwLock {
    pub(crate) fn new(handle: QueueHandle) -> Self {
        Self { handle: Arc::new(handle) }
    }

    /// Waits until no writer is ahead. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
    ///
    /// # Errors
    /// `Unavailable`; `Lost` when another client removed the place in the queue (`Revoked`);
    /// `Forbidden`; `Conflict` when another program has keys in its place;
    /// `Misconfigured`; `Closed`; `RuntimeGone`.
    ///
    /// # Cancel safety
    /// Cancel-safe: a dropped read leaves nothing in the queue.
    pub fn read(&self) -> Acquire<ReadGuard> {
        Ask::new("read", Claim::Shared).of(self.handle.clone())
    }

    /// Reads if no writer holds or waits; never waits.
    ///
    /// # Errors
    /// As [`Mutex::try_acquire`](super::Mutex::try_acquire).
    ///
    /// # Cancel safety
    /// Cancel-safe: leaves nothing in the queue.
    pub fn try_read(&self) -> Acquire<Option<ReadGuard>> {
        Ask::try_new("try_read", Claim::Shared).of(self.handle.clone())
    }

    /// Waits until the queue before it is empty. As [`Mutex::acquire`](super::Mutex::acquire) otherwise.
    ///
    /// # Errors
    /// As [`read`](Self::read); `Deadlock` if the owner reads and does not write.
    ///
    /// # Cancel safety
    /// As [`read`](Self::read). Readers that waited for it are admitted.
    pub fn write(&self) -> Acquire<WriteGuard> {
        Ask::new("write", Claim::Exclusive).of(self.handle.clone())
    }

    /// Writes if it is free and the queue is empty; never waits.
    ///
    /// # Errors
    /// As [`try_read`](Self::try_read).
    ///
    /// # Cancel safety
    /// As [`try_read`](Self::try_read).
    pub fn try_write(&self) -> Acquire<Option<WriteGuard>> {
        Ask::try_new("try_write", Claim::Exclusive).of(self.handle.clone())
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

addressed!(RwLock, self => self.handle.queue);
