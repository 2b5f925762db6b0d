//! What is acquired by one at a time, of whatever recipe: a handle and a guard that cases take for a mutex and its guard.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::Entry;
use latchwork_core::recipes::{Acquire, Mutex, Permit, ReentrantMutex, RwLock, Semaphore};
use latchwork_core::{Fenced, Hold, Owner, Result, Token};

use crate::taken::Taken;

/// What is acquired by one at a time.
#[async_trait]
trait Exclusive: fmt::Debug + Send + Sync {
    async fn acquire_with(&self, options: Acquire) -> Result<Guard>;

    async fn try_acquire(&self) -> Result<Option<Guard>>;

    /// Contenders only, in order.
    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>>;

    async fn force_release(&self, sequence: u64) -> Result<bool>;
}

/// A handle of what a case takes for a mutex.
#[derive(Clone, Debug)]
pub(crate) struct Lock(Arc<dyn Exclusive>);

impl Lock {
    pub(crate) fn writer(lock: RwLock) -> Self {
        Self(Arc::new(Writing(lock)))
    }

    /// So many permits at once, beside those that are taken all the time.
    pub(crate) fn permits(semaphore: Semaphore, weight: u32, taken: Option<Arc<Taken>>) -> Self {
        Self(Arc::new(Permits { semaphore, weight, taken }))
    }

    /// By a fresh owner each time, with the client's own label, so that a listing shows the same as for a mutex.
    pub(crate) fn owners(lock: ReentrantMutex, label: &str) -> Self {
        Self(Arc::new(ByOwners { lock, label: label.into() }))
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

    pub(crate) async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.0.force_release(sequence).await
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

    async fn force_release(&self, sequence: u64) -> Result<bool> {
        Mutex::force_release(self, sequence).await
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

    async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.0.force_release(sequence).await
    }
}

#[derive(Debug)]
struct ByOwners {
    lock: ReentrantMutex,
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
        self.lock.acquire_as_with(&self.owner(), options).await.map(Guard::fenced)
    }

    async fn try_acquire(&self) -> Result<Option<Guard>> {
        Ok(self.lock.try_acquire_as(&self.owner()).await?.map(Guard::fenced))
    }

    async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        self.lock.queue(after, most).await
    }

    async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.lock.force_release(sequence).await
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

    async fn force_release(&self, sequence: u64) -> Result<bool> {
        self.semaphore.force_release(sequence).await
    }
}
