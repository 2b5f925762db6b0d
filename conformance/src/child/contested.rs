//! The key for which child processes contend.

use latchwork_core::{Coordinator, Key, Result};
use serde::{Deserialize, Serialize};

use crate::adapter::Adapter;
use crate::exclusive::Lock;

/// A key for which child processes contend.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contested {
    /// The key.
    pub key: String,
    /// Whether the key is the full name of a lock of another program: a mutex, or another recipe in a soak.
    pub exact: bool,
    /// The recipe that takes the place of the mutex. If another client must hold permits, the parent ensures it.
    pub adapter: Adapter,
}

impl Contested {
    /// Creates a key of this library, acquired with this adapter.
    pub fn new(key: impl Into<String>, adapter: Adapter) -> Self {
        Self { key: key.into(), exact: false, adapter }
    }

    /// Creates an exact key, which another program may use too.
    pub fn exact(key: impl Into<String>) -> Self {
        Self { exact: true, ..Self::new(key, Adapter::Mutex) }
    }

    /// Returns the key as the name of a recipe.
    pub(crate) fn name(&self) -> Key {
        if self.exact { Key::exact(self.key.as_str()) } else { Key::from(self.key.as_str()) }
    }

    /// Returns the lock that takes the place of the mutex.
    pub(crate) fn lock(&self, coordinator: &Coordinator) -> Result<Lock> {
        match self.exact {
            true => Ok(Lock::Mutex(coordinator.mutex(self.name())?)),
            false => self.adapter.lock(coordinator, &self.key, None),
        }
    }
}
