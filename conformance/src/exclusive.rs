//! What is acquired by one at a time, of whatever recipe: a handle and a guard that cases take for
//! a mutex and its guard.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::Entry;
use latchwork_core::recipes::{
    Acquire, MultiGuard, MultiLock, Mutex, Permit, QuorumGuard, QuorumLock, ReentrantMutex, RwLock, Semaphore,
};
use latchwork_core::{Fenced, Hold, Owner, Result, Token};

use crate::taken::Taken;

/// A handle of what a case takes for a mutex.
#[derive(Clone, Debug)]
pub(crate) enum Lock {
    Mutex(Mutex),
    Writer(RwLock),
    /// By a fresh owner each time, with the client's own label, so that a listing shows the same as
    /// for a mutex.
    Owners {
        lock: ReentrantMutex,
        label: Arc<str>,
    },
    /// As the only member.
    Multi {
        lock: MultiLock,
        mutex: Mutex,
    },
    /// As the only member of a quorum.
    Quorum {
        lock: QuorumLock,
        mutex: Mutex,
    },
    /// So many permits at once, beside those that are taken all the time.
    Permits {
        semaphore: Semaphore,
        weight: u32,
        taken: Option<Arc<Taken>>,
    },
}

impl Lock {
    pub(crate) async fn acquire(&self) -> Result<Guard> {
        self.acquire_with(Acquire::new()).await
    }

    pub(crate) async fn acquire_within(&self, deadline: Duration) -> Result<Guard> {
        self.acquire_with(Acquire::new().within(deadline)).await
    }

    pub(crate) async fn acquire_with(&self, options: Acquire) -> Result<Guard> {
        self.others().await?;
        match self {
            Self::Mutex(mutex) => mutex.acquire_with(options).await.map(Guard::fenced),
            Self::Writer(lock) => lock.write_with(options).await.map(Guard::fenced),
            Self::Owners { lock, label } => {
                lock.acquire_as_with(&Owner::new(Arc::clone(label)), options).await.map(Guard::fenced)
            }
            Self::Multi { lock, .. } => lock.acquire_with(options).await.map(Guard::only_member),
            Self::Quorum { lock, .. } => lock.acquire_with(options).await.map(Guard::whole_quorum),
            Self::Permits { semaphore, weight, .. } => {
                semaphore.acquire_with(*weight, options).await.map(Guard::sole)
            }
        }
    }

    pub(crate) async fn try_acquire(&self) -> Result<Option<Guard>> {
        self.others().await?;
        Ok(match self {
            Self::Mutex(mutex) => mutex.try_acquire().await?.map(Guard::fenced),
            Self::Writer(lock) => lock.try_write().await?.map(Guard::fenced),
            Self::Owners { lock, label } => {
                lock.try_acquire_as(&Owner::new(Arc::clone(label))).await?.map(Guard::fenced)
            }
            Self::Multi { lock, .. } => lock.try_acquire().await?.map(Guard::only_member),
            Self::Quorum { lock, .. } => lock.try_acquire().await?.map(Guard::whole_quorum),
            Self::Permits { semaphore, weight, .. } => semaphore.try_acquire(*weight).await?.map(Guard::sole),
        })
    }

    /// Contenders only, in order.
    pub(crate) async fn queue(&self, after: u64, most: usize) -> Result<Vec<Entry>> {
        let others = self.others().await?;
        let mut entries = match self {
            Self::Mutex(mutex) | Self::Multi { mutex, .. } | Self::Quorum { mutex, .. } => {
                mutex.queue(after, most).await?
            }
            Self::Writer(lock) => lock.queue(after, most).await?,
            Self::Owners { lock, .. } => lock.queue(after, most).await?,
            Self::Permits { semaphore, .. } => semaphore.queue(after, most).await?,
        };
        entries.retain(|entry| Some(entry.sequence) != others);
        Ok(entries)
    }

    pub(crate) async fn force_release(&self, sequence: u64) -> Result<bool> {
        match self {
            Self::Mutex(mutex) | Self::Multi { mutex, .. } | Self::Quorum { mutex, .. } => {
                mutex.force_release(sequence).await
            }
            Self::Writer(lock) => lock.force_release(sequence).await,
            Self::Owners { lock, .. } => lock.force_release(sequence).await,
            Self::Permits { semaphore, .. } => semaphore.force_release(sequence).await,
        }
    }

    /// The node that holds the permits that are taken all the time.
    async fn others(&self) -> Result<Option<u64>> {
        match self {
            Self::Permits { semaphore, taken: Some(taken), .. } => {
                taken.take(semaphore.key()).await.map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// The guard of any of them.
#[must_use = "a guard that is dropped at once releases at once"]
#[derive(Debug)]
pub(crate) struct Guard {
    hold: Box<dyn Hold>,
    // A quorum that was lost as it was acquired has none.
    token: Option<Token>,
}

impl Guard {
    pub(crate) fn fenced(hold: impl Fenced + 'static) -> Self {
        Self { token: Some(hold.token()), hold: Box::new(hold) }
    }

    /// Permits do not fence; the holder of the only one has the tokens of a mutex all the same.
    fn sole(permit: Permit) -> Self {
        Self { token: Some(permit.token()), hold: Box::new(permit) }
    }

    fn only_member(hold: MultiGuard) -> Self {
        Self { token: Some(hold.tokens()[0]), hold: Box::new(hold) }
    }

    /// A quorum does not fence; that of one server has its tokens all the same.
    fn whole_quorum(hold: QuorumGuard) -> Self {
        Self { token: hold.tokens()[0], hold: Box::new(hold) }
    }

    pub(crate) fn token(&self) -> Token {
        self.token.expect("it was held when it was acquired")
    }
}

impl std::ops::Deref for Guard {
    type Target = Box<dyn Hold>;

    fn deref(&self) -> &Box<dyn Hold> {
        &self.hold
    }
}
