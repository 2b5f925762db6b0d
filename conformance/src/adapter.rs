//! What else takes part as a mutex. A case about what a mutex does is played once with each adapter, on every backend.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::Entry;
use latchwork_core::decide::Claim;
use latchwork_core::recipes::{Acquire, Mutex, Permit, ReentrantMutex, RwLock, Semaphore};
use latchwork_core::{Coordinator, Fenced, Hold, Kind, Owner, Release, Result, Token};
use serde::{Deserialize, Serialize};

/// With what a case about a mutex is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Adapter {
    /// The mutex itself.
    #[default]
    Mutex,
    /// A semaphore of limit 1.
    SemaphoreOfOne,
    /// A semaphore of limit 5, of which another client holds 4 all the time.
    SemaphoreOfFive,
    /// The writer of a read/write lock.
    Writer,
    /// A reentrant mutex, by a fresh owner for each acquisition.
    Reentrant,
}

/// Of the five permits, so many are taken.
const TAKEN: u32 = 4;

impl Adapter {
    /// All of them, the mutex itself first.
    pub const ALL: [Self; 5] =
        [Self::Mutex, Self::SemaphoreOfOne, Self::SemaphoreOfFive, Self::Writer, Self::Reentrant];

    /// Its name in titles and in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::SemaphoreOfOne => "semaphore-1",
            Self::SemaphoreOfFive => "semaphore-5",
            Self::Writer => "rwlock-writer",
            Self::Reentrant => "reentrant",
        }
    }

    /// The kind of its addresses.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Mutex | Self::Reentrant => Kind::Mutex,
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => Kind::Semaphore,
            Self::Writer => Kind::RwLock,
        }
    }

    /// How its contenders stand in the queue.
    pub(crate) fn claim(self) -> Claim {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant => Claim::Exclusive,
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => Claim::Permits(1),
        }
    }

    /// The limit that its joins are made with.
    pub(crate) fn limit(self) -> Option<u32> {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant => None,
            Self::SemaphoreOfOne => Some(1),
            Self::SemaphoreOfFive => Some(TAKEN + 1),
        }
    }

    /// What errors call a try.
    pub(crate) fn try_operation(self) -> &'static str {
        match self {
            Self::Writer => "try_write",
            Self::Mutex | Self::SemaphoreOfOne | Self::SemaphoreOfFive | Self::Reentrant => "try_acquire",
        }
    }

    /// A handle for `key`. `taken` has the permits that are to be held by another client; who passes none has seen to it.
    pub(crate) fn lock(
        self,
        coordinator: &Coordinator,
        key: &str,
        taken: Option<Arc<Taken>>,
    ) -> Result<Lock> {
        Ok(match self {
            Self::Mutex => Lock::from(coordinator.mutex(key)?),
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => {
                let limit = self.limit().expect("a semaphore has a limit");
                let semaphore = coordinator.semaphore(key, limit)?;
                Lock(Arc::new(Permits { semaphore, weight: 1, taken }))
            }
            Self::Writer => Lock(Arc::new(Writing(coordinator.rwlock(key)?))),
            Self::Reentrant => Lock(Arc::new(ByOwners {
                lock: coordinator.reentrant_mutex(key)?,
                // It is one queue; a reentrant mutex does not list it.
                queue: coordinator.mutex(key)?,
                label: coordinator.label().into(),
            })),
        })
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is acquired by one at a time.
#[async_trait]
trait Exclusive: fmt::Debug + Send + Sync {
    async fn acquire_with(&self, options: Acquire) -> Result<Guard>;

    async fn try_acquire(&self) -> Result<Option<Guard>>;

    /// Contenders only, in order.
    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>>;
}

/// A handle of what a case takes for a mutex.
#[derive(Clone, Debug)]
pub(crate) struct Lock(Arc<dyn Exclusive>);

impl Lock {
    /// Who holds all permits is alone, too.
    pub(crate) fn of_all_permits(semaphore: Semaphore) -> Self {
        let weight = semaphore.limit();
        Self(Arc::new(Permits { semaphore, weight, taken: None }))
    }

    pub(crate) async fn acquire(&self) -> Result<Guard> {
        self.acquire_with(Acquire::new()).await
    }

    pub(crate) async fn acquire_within(&self, deadline: Duration) -> Result<Guard> {
        self.acquire_with(Acquire::new().within(deadline)).await
    }

    pub(crate) async fn acquire_with(&self, options: Acquire) -> Result<Guard> {
        self.0.acquire_with(options).await
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.0.try_acquire().await
    }

    pub(crate) async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.0.queue(after, most).await
    }
}

impl From<Mutex> for Lock {
    fn from(mutex: Mutex) -> Self {
        Self(Arc::new(mutex))
    }
}

/// The guard of any of them.
#[must_use = "a guard that is dropped at once releases at once"]
#[derive(Debug)]
pub(crate) struct Guard {
    hold: Box<dyn Hold>,
    token: Token,
}

impl Guard {
    fn fenced(hold: impl Fenced + 'static) -> Self {
        Self { token: hold.token(), hold: Box::new(hold) }
    }

    /// Permits do not fence; whoever holds the only one has the tokens of a mutex all the same.
    fn sole(permit: Permit) -> Self {
        Self { token: permit.token(), hold: Box::new(permit) }
    }

    pub(crate) fn token(&self) -> Token {
        self.token
    }
}

impl std::ops::Deref for Guard {
    type Target = Box<dyn Hold>;

    fn deref(&self) -> &Box<dyn Hold> {
        &self.hold
    }
}

#[async_trait]
impl Exclusive for Mutex {
    async fn acquire_with(&self, options: Acquire) -> Result<Guard> {
        Mutex::acquire_with(self, options).await.map(Guard::fenced)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(Mutex::try_acquire(self).await?.map(Guard::fenced))
    }

    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        Mutex::queue(self, after, most).await
    }
}

#[derive(Debug)]
struct Writing(RwLock);

#[async_trait]
impl Exclusive for Writing {
    async fn acquire_with(&self, options: Acquire) -> Result<Guard> {
        self.0.write_with(options).await.map(Guard::fenced)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.0.try_write().await?.map(Guard::fenced))
    }

    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.0.queue(after, most).await
    }
}

#[derive(Debug)]
struct ByOwners {
    lock: ReentrantMutex,
    queue: Mutex,
    // The client's own, so that a listing shows the same as for a mutex.
    label: Arc<str>,
}

impl ByOwners {
    fn owner(&self) -> Owner {
        Owner::new(Arc::clone(&self.label))
    }
}

#[async_trait]
impl Exclusive for ByOwners {
    async fn acquire_with(&self, options: Acquire) -> Result<Guard> {
        self.lock.acquire_with(&self.owner(), options).await.map(Guard::fenced)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.lock.try_acquire_as(&self.owner()).await?.map(Guard::fenced))
    }

    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.queue.queue(after, most).await
    }
}

#[derive(Debug)]
struct Permits {
    semaphore: Semaphore,
    weight: u32,
    taken: Option<Arc<Taken>>,
}

impl Permits {
    /// The node that holds the other permits.
    async fn others(&self) -> Result<Option<u64>> {
        match &self.taken {
            Some(taken) => taken.take(self.semaphore.key()).await.map(Some),
            None => Ok(None),
        }
    }
}

#[async_trait]
impl Exclusive for Permits {
    async fn acquire_with(&self, options: Acquire) -> Result<Guard> {
        self.others().await?;
        self.semaphore.acquire_with(self.weight, options).await.map(Guard::sole)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.others().await?;
        Ok(self.semaphore.try_acquire(self.weight).await?.map(Guard::sole))
    }

    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        let others = self.others().await?;
        let mut entries = self.semaphore.queue(after, most).await?;
        entries.retain(|entry| Some(entry.sequence) != others);
        Ok(entries)
    }
}

/// The permits that a client of its own holds, of each key that a case touches, for as long as the case lasts.
#[derive(Debug)]
pub(crate) struct Taken {
    coordinator: Coordinator,
    limit: u32,
    permits: tokio::sync::Mutex<HashMap<String, Permit>>,
}

impl Taken {
    pub(crate) fn by(coordinator: Coordinator) -> Self {
        Self { coordinator, limit: TAKEN + 1, permits: tokio::sync::Mutex::default() }
    }

    /// Takes the permits of `key`, once, and answers with the node that holds them.
    pub(crate) async fn take(&self, key: &str) -> Result<u64> {
        let mut permits = self.permits.lock().await;
        if let Some(permit) = permits.get(key) {
            return Ok(permit.token().sequence());
        }
        let permit = self.coordinator.semaphore(key, self.limit)?.acquire(TAKEN).await?;
        let node = permit.token().sequence();
        permits.insert(key.to_owned(), permit);
        Ok(node)
    }

    /// Gives all of them back. Whatever happened in the case, they were held until now: else it was no mutex that was tried.
    pub(crate) async fn give_back(&self) -> Result<()> {
        for (key, permit) in self.permits.lock().await.drain() {
            let released = permit.release().await?;
            assert_eq!(
                released,
                Release::Released,
                "the permits of {key:?} that were to be taken all the time"
            );
        }
        self.coordinator.close().await
    }
}
