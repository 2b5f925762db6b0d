use std::fmt;
use std::str::FromStr;

use latchwork_core::recipes::{Election, Mutex, RwLock, Semaphore};
use latchwork_core::{Coordinator, Hold};

use crate::Result;

/// A recipe whose holds exclude each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// The mutex.
    Mutex,
    /// The read/write lock, taken for writing.
    RwWrite,
    /// A semaphore of one permit.
    Semaphore,
}

impl Recipe {
    /// All recipes.
    pub const ALL: [Recipe; 3] = [Recipe::Mutex, Recipe::RwWrite, Recipe::Semaphore];

    fn name(self) -> &'static str {
        self.peer().trim_start_matches("latchwork-")
    }

    pub(super) const fn peer(self) -> &'static str {
        match self {
            Recipe::Mutex => "latchwork-mutex",
            Recipe::RwWrite => "latchwork-rw-write",
            Recipe::Semaphore => "latchwork-semaphore",
        }
    }

    pub(super) fn lock(self, client: &Coordinator, key: &str) -> Result<Lock> {
        Ok(match self {
            Recipe::Mutex => Lock::Mutex(client.mutex(key)?),
            Recipe::RwWrite => Lock::RwLock(client.rwlock(key)?),
            Recipe::Semaphore => Lock::Semaphore(client.semaphore(key, 1)?),
        })
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(name: &str) -> std::result::Result<Self, String> {
        Self::ALL.into_iter().find(|recipe| recipe.name() == name).ok_or_else(|| {
            format!("unknown recipe {name:?}: expected {}", Self::ALL.map(Recipe::name).join(", "))
        })
    }
}

#[derive(Clone, Debug)]
pub(super) enum Lock {
    Mutex(Mutex),
    RwLock(RwLock),
    Semaphore(Semaphore),
    Election(Election),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Alone,
    Read,
    Permits(u32),
}

impl Lock {
    pub(super) async fn acquire(&self, ask: Ask) -> Result<Hold> {
        Ok(match (self, ask) {
            (Lock::Mutex(mutex), _) => mutex.acquire().await?.into(),
            (Lock::Election(election), _) => election.campaign(b"candidate").await?.into(),
            (Lock::RwLock(lock), Ask::Read) => lock.read().await?.into(),
            (Lock::RwLock(lock), _) => lock.write().await?.into(),
            (Lock::Semaphore(permits), Ask::Permits(weight)) => permits.acquire(weight).await?.into(),
            (Lock::Semaphore(permits), _) => permits.acquire(1).await?.into(),
        })
    }
}
