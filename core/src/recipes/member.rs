//! A lock as a member of several.

use std::fmt;

use super::guards::Held;
use super::mutex::Mutex;
use super::queue_handle::QueueHandle;
use super::reentrant::ReentrantMutex;
use super::rwlock::RwLock;
use super::semaphore::Semaphore;
use super::verb::Ask;
use crate::address::Address;
use crate::error::Result;
use crate::reentrancy::Mode;

/// A lock as a member of a [`MultiLock`](super::MultiLock): of any recipe, mode and coordinator.
///
/// ```
/// # use latchwork_core::{connect, recipes::Member, Config, memory};
/// # async fn example() -> Result<(), latchwork_core::Error> {
/// # let coordinator = connect(&[memory::connector()], &Config::from_url("memory://")?).await?;
/// let members = [
///     Member::from(coordinator.mutex("orders")?),
///     Member::read(coordinator.rwlock("prices")?),
///     Member::permits(coordinator.semaphore("workers", 8)?, 2),
/// ];
/// # assert_eq!(members[1].address().name(), "prices");
/// # coordinator.close().await }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
#[derive(Clone)]
pub struct Member(Recipe);

#[derive(Clone)]
enum Recipe {
    Mutex(Mutex),
    Reentrant(ReentrantMutex),
    RwLock(RwLock, Mode),
    Permits(Semaphore, u32),
}

impl Member {
    /// A read/write lock, to read.
    pub fn read(lock: RwLock) -> Self {
        Self(Recipe::RwLock(lock, Mode::Shared))
    }

    /// A read/write lock, to write.
    pub fn write(lock: RwLock) -> Self {
        Self(Recipe::RwLock(lock, Mode::Exclusive))
    }

    /// Permits of a semaphore. A weight that is zero or above the limit is refused by the
    /// acquisition.
    pub fn permits(semaphore: Semaphore, weight: u32) -> Self {
        Self(Recipe::Permits(semaphore, weight))
    }

    /// The queue's address on its coordinator.
    pub fn address(&self) -> &Address {
        &self.handle().queue
    }

    /// The name of its coordinator ([`Config::name`](crate::Config::name)).
    pub fn coordinator(&self) -> Option<&str> {
        self.handle().client().name.as_deref()
    }

    pub(super) fn handle(&self) -> &QueueHandle {
        match &self.0 {
            Recipe::Mutex(mutex) => &mutex.handle,
            Recipe::Reentrant(mutex) => &mutex.handle,
            Recipe::RwLock(lock, _) => &lock.handle,
            Recipe::Permits(semaphore, _) => &semaphore.handle,
        }
    }

    /// Acquires it as its recipe does.
    pub(super) async fn take(&self, ask: Ask<'_>) -> Result<Option<Held>> {
        match &self.0 {
            Recipe::Mutex(mutex) => mutex.take_held(ask).await,
            Recipe::Reentrant(mutex) => mutex.take_held(ask).await,
            Recipe::RwLock(lock, mode) => lock.take(ask, *mode).await,
            Recipe::Permits(semaphore, weight) => semaphore.take_held(*weight, ask).await,
        }
    }
}

impl From<Mutex> for Member {
    fn from(mutex: Mutex) -> Self {
        Self(Recipe::Mutex(mutex))
    }
}

/// Its owner is the one that the acquisition names, or that of the task's scope.
impl From<ReentrantMutex> for Member {
    fn from(mutex: ReentrantMutex) -> Self {
        Self(Recipe::Reentrant(mutex))
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member")
            .field("coordinator", &self.coordinator())
            .field("address", self.address())
            .finish_non_exhaustive()
    }
}
