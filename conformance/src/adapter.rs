//! What else takes part as a mutex. A case about what a mutex does is played once with each adapter, on every backend.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use latchwork_core::contracts::AskedLimit;
use latchwork_core::decide::Claim;
use latchwork_core::recipes::Permit;
use latchwork_core::{Coordinator, Kind, Release, Result};
use serde::{Deserialize, Serialize};

use crate::exclusive::Lock;

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
    pub(crate) fn limit(self) -> AskedLimit {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant => AskedLimit::Stored,
            Self::SemaphoreOfOne => AskedLimit::Exactly(1),
            Self::SemaphoreOfFive => AskedLimit::Exactly(TAKEN + 1),
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
                let limit = self.limit().exactly().expect("a semaphore has a limit");
                Lock::permits(coordinator.semaphore(key, limit)?, 1, taken)
            }
            Self::Writer => Lock::writer(coordinator.rwlock(key)?),
            Self::Reentrant => Lock::owners(coordinator.reentrant_mutex(key)?, coordinator.label()),
        })
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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
