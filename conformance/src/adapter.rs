use std::fmt;
use std::sync::Arc;

use latchwork_core::backend::decide::MAX_TTL;
use latchwork_core::recipes::{MultiLock, QuorumLock};
use latchwork_core::{Claim, Coordinator, Kind, Limit, Result};
use serde::{Deserialize, Serialize};

use crate::exclusive::Lock;
use crate::taken::{TAKEN, Taken};

/// The recipe that plays the part of a mutex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Adapter {
    /// A mutex.
    #[default]
    Mutex,
    /// A semaphore of limit 1.
    SemaphoreOfOne,
    /// A semaphore of limit 5, of which another client holds 4.
    SemaphoreOfFive,
    /// The writer of a read/write lock.
    Writer,
    /// A reentrant mutex, with a new owner each time.
    Reentrant,
    /// A MultiLock of one mutex.
    Multi,
    /// A QuorumLock of one mutex.
    Quorum,
}

impl Adapter {
    /// All adapters.
    pub const ALL: [Self; 7] = [
        Self::Mutex,
        Self::SemaphoreOfOne,
        Self::SemaphoreOfFive,
        Self::Writer,
        Self::Reentrant,
        Self::Multi,
        Self::Quorum,
    ];

    /// Returns the name.
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

    pub(crate) fn title(self, case: &str) -> String {
        if self == Self::Mutex { case.to_owned() } else { format!("{case}@{self}") }
    }

    /// Returns whether it is client code that uses only the queue of a mutex.
    pub fn is_client_code(self) -> bool {
        matches!(self, Self::Reentrant | Self::Multi | Self::Quorum)
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Mutex | Self::Reentrant | Self::Multi | Self::Quorum => Kind::Mutex,
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => Kind::Semaphore,
            Self::Writer => Kind::RwLock,
        }
    }

    pub(crate) fn claim(self) -> Claim {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant | Self::Multi | Self::Quorum => Claim::Exclusive,
            Self::SemaphoreOfOne | Self::SemaphoreOfFive => Claim::Permits(1),
        }
    }

    pub(crate) fn limit(self) -> Limit {
        match self {
            Self::Mutex | Self::Writer | Self::Reentrant | Self::Multi | Self::Quorum => Limit::Stored,
            Self::SemaphoreOfOne => Limit::Exactly(1),
            Self::SemaphoreOfFive => Limit::Exactly(TAKEN + 1),
        }
    }

    pub(crate) fn try_operation(self) -> &'static str {
        match self {
            Self::Writer => "try_write",
            _ => "try_acquire",
        }
    }

    /// Without `taken`, the caller has acquired the other client's permits.
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
