use std::fmt;
use std::sync::Arc;

use super::acquire::Take;
use super::ask::Ask;
use super::hold::Hold;
use super::mutex::Mutex;
use super::queue_handle::QueueHandle;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use crate::address::Address;
use crate::contracts::Limit;
use crate::decide::Claim;
use crate::error::Result;

/// A member of a [`MultiLock`](super::MultiLock): a lock, and the mode in which it is acquired.
#[derive(Clone)]
pub struct MultiMember {
    pub(super) handle: Arc<QueueHandle>,
    claim: Claim,
    limit: Limit,
}

impl MultiMember {
    /// Makes a member that reads under a read/write lock.
    pub fn read(lock: &RwLock) -> Self {
        Self::of(&lock.handle, Claim::Shared, Limit::Stored)
    }

    /// Makes a member that writes under a read/write lock.
    pub fn write(lock: &RwLock) -> Self {
        Self::of(&lock.handle, Claim::Exclusive, Limit::Stored)
    }

    /// Makes a member that takes `weight` permits of a semaphore, all or none.
    pub fn permits(semaphore: &Semaphore, weight: u32) -> Self {
        Self::of(&semaphore.handle, Claim::Permits(weight), semaphore.limit())
    }

    fn of(handle: &Arc<QueueHandle>, claim: Claim, limit: Limit) -> Self {
        Self { handle: Arc::clone(handle), claim, limit }
    }

    /// Returns the lock's address on its coordinator.
    pub fn address(&self) -> &Address {
        &self.handle.queue
    }

    /// Returns the [name](crate::Config::name) of the lock's coordinator, if it has one.
    pub fn coordinator(&self) -> Option<&str> {
        self.handle.client().name.as_deref()
    }

    pub(super) async fn acquire(&self, ask: Ask) -> Result<Option<Hold>> {
        Arc::clone(&self.handle).take(Ask { claim: self.claim, limit: self.limit, ..ask }).await
    }
}

impl From<Mutex> for MultiMember {
    fn from(mutex: Mutex) -> Self {
        Self::from(&mutex)
    }
}

impl From<&Mutex> for MultiMember {
    fn from(mutex: &Mutex) -> Self {
        Self::of(&mutex.handle, Claim::Exclusive, Limit::Stored)
    }
}

impl fmt::Debug for MultiMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiMember")
            .field("coordinator", &self.coordinator())
            .field("address", self.address())
            .finish_non_exhaustive()
    }
}
