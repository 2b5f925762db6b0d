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
/// *Protocol.* A reader waits for the nearest writer ahead of it in the queue, and a writer for all nodes
/// ahead of it. So later readers do not starve a waiting writer.
///
/// *Owners.* All holds of an owner ([`Acquire::by`]) share one node. An owner that reads may read again, also
/// while a writer waits. An owner that writes may read and write again; after its last write hold, it reads
/// in its place. An owner that only reads and asks to write gets [`Deadlock`](crate::ErrorKind::Deadlock).
/// Without an owner, such a task waits for itself, and so does a reader that reads again after a writer has
/// joined.
///
/// *Fencing.* A writer has a token; readers have none. *When the lease is lost*, the effect is as for a
/// [`Mutex`](super::Mutex).
///
/// *Source.* The shared locks of the ZooKeeper recipes, with Curator's
/// [`downgrade`](super::WriteGuard::downgrade). On ZooKeeper the layout is that of Curator's
/// `InterProcessReadWriteLock`.
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

    /// Acquires for reading: waits until no writer is ahead in the queue. The rest is as
    /// [`Mutex::acquire`](super::Mutex::acquire).
    pub fn read(&self) -> Acquire<ReadGuard> {
        Ask::new("read", Claim::Shared).of(self.handle.clone())
    }

    /// Acquires for reading if no writer holds or waits; otherwise returns `None` without waiting. The rest
    /// is as [`Mutex::try_acquire`](super::Mutex::try_acquire).
    pub fn try_read(&self) -> Acquire<Option<ReadGuard>> {
        Ask::try_new("try_read", Claim::Shared).of(self.handle.clone())
    }

    /// Acquires for writing: waits until no node is ahead in the queue.
    ///
    /// # Errors
    /// * `Deadlock`: the owner reads and does not write.
    /// * The errors of [`Mutex::acquire`](super::Mutex::acquire).
    pub fn write(&self) -> Acquire<WriteGuard> {
        Ask::new("write", Claim::Exclusive).of(self.handle.clone())
    }

    /// Acquires for writing if the lock is free and its queue is empty; otherwise returns `None` without
    /// waiting.
    ///
    /// # Errors
    /// As [`write`](Self::write), without `Timeout`.
    pub fn try_write(&self) -> Acquire<Option<WriteGuard>> {
        Ask::try_new("try_write", Claim::Exclusive).of(self.handle.clone())
    }

    /// Lists the holders and the waiters in queue order.
    pub fn queue(&self) -> Listing<QueueEntry> {
        self.handle.listing()
    }

    /// Removes a client's node, as [`Mutex::force_release`](super::Mutex::force_release).
    pub async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.handle.force_release(sequence).await
    }
}

addressed!(RwLock, self => self.handle.queue);
