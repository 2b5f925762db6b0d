//! Recipes that take the place of a mutex. A case about the behaviour of mutexes is played once with each
//! adapter, on each backend.

use std::fmt;
use std::sync::Arc;

use latchwork_core::backend::decide::MAX_TTL;
use latchwork_core::recipes::{MultiLock, QuorumLock};
use latchwork_core::{Claim, Coordinator, Kind, Limit, Result};
use serde::{Deserialize, Serialize};

use crate::exclusive::Lock;
use crate::taken::{TAKEN, Taken};

/// The recipe with which a case about a mutex is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Adapter {
    /// The mutex itself.
    #[default]
    Mutex,
    /// A semaphore of limit 1.
    SemaphoreOfOne,
    /// A semaphore of limit 5, of which another client always holds 4.
    SemaphoreOfFive,
    /// The writer of a read/write lock.
    Writer,
    /// A reentrant mutex, with a new owner for each acquisition.
    Reentrant,
    /// A MultiLock of one mutex.
    Multi,
    /// A QuorumLock of one mutex.
    Quorum,
}

impl Adapter {
    /// All adapters; the mutex is first.
    pub const ALL: [Self; 7] = [
        Self::Mutex,
        Self::SemaphoreOfOne,
        Self::SemaphoreOfFive,
        Self::Writer,
        Self::Reentrant,
        Self::Multi,
        Self::Quorum,
    ];

    /// Returns the name in titles and in the summary.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::SemaphoreOfOne => "semaphore-1",
            Self::SemaphoreOfFive => "semaphore-5",
            Self::Writer => "rwlock-writer",
            Self::Reentrant => "reentrant",
            Self::Multi => "multi-lock",
            Self::Quorum => "quorum-lock",
        }
    }

    /// Returns the title of a case with this adapter: `mutex_excludes@semaphore-1`, or only the name for a plain mutex.
    pub(crate) fn title(self, case: &str) -> String {
        if self == Self::Mutex { case.to_owned() } else { format!("{case}@{self}") }
    }

    /// Returns whether it is client code over the queue of a mutex, without other requests to the server.
    pub fn is_client_code(self) -> bool {
        matches!(self, Self::Reentrant | Self::Multi | Self::Quorum)
    }

    /// Returns the kind of its addresses.
    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Mutex | Self::Reentrant | Self::Multi | Self::Quorum => Kind::Mutex,
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => Kind::Semaphore,
            Self::Writer => Kind::RwLock,
        }
    }

    /// Returns the claim of its contenders.
    pub(crate) fn claim(self) -> Claim {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant | Self::Multi | Self::Quorum => Claim::Exclusive,
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => Claim::Permits(1),
        }
    }

    /// Returns the limit of its joins.
    pub(crate) fn limit(self) -> Limit {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant | Self::Multi | Self::Quorum => Limit::Stored,
            Self::SemaphoreOfOne => Limit::Exactly(1),
            Self::SemaphoreOfFive => Limit::Exactly(TAKEN + 1),
        }
    }

    /// Returns the operation that errors of a try name.
    pub(crate) fn try_operation(self) -> &'static str {
        match self {
            Self::Writer => "try_write",
            _ => "try_acquire",
        }
    }

    /// Returns a handle for `key`. `taken` has the permits that another client must hold. If it is `None`, the caller has
    /// acquired them.
    pub(crate) fn lock(
        self,
        coordinator: &Coordinator,
        key: &str,
        taken: Option<Arc<Taken>>,
    ) -> Result<Lock> {
        Ok(match self {
            Self::Mutex => Lock::Mutex(coordinator.mutex(key)?),
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => {
                let limit = self.limit().exactly().expect("a semaphore has a limit");
                Lock::Permits { semaphore: coordinator.semaphore(key, limit)?, weight: 1, taken }
            }
            Self::Writer => Lock::Writer(coordinator.rwlock(key)?),
            Self::Reentrant => {
                Lock::Owners { lock: coordinator.mutex(key)?, label: coordinator.label().into() }
            }
            Self::Multi => {
                let mutex = coordinator.mutex(key)?;
                Lock::Multi { lock: MultiLock::new([&mutex])?, mutex }
            }
            Self::Quorum => {
                let mutex = coordinator.mutex(key)?;
                Lock::Quorum { lock: QuorumLock::new(key, [coordinator.clone()], MAX_TTL)?, mutex }
            }
        })
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
