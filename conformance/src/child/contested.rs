use latchwork_core::{Coordinator, Key, Result};
use serde::{Deserialize, Serialize};

use crate::adapter::Adapter;
use crate::exclusive::Lock;

/// The key of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Contested {
    /// Its name.
    pub key: String,
    /// Whether it is the full name of another program's lock.
    pub exact: bool,
    /// The recipe. The parent holds the other client's permits.
    pub adapter: Adapter,
}

impl Contested {
    /// Creates a key of this library.
    pub fn new(key: impl Into<String>, adapter: Adapter) -> Self {
        Self { key: key.into(), exact: false, adapter }
    }

    /// Creates an exact key.
    pub fn exact(key: impl Into<String>) -> Self {
        Self { exact: true, ..Self::new(key, Adapter::Mutex) }
    }

    pub(crate) fn name(&self) -> Key {
        if self.exact { Key::exact(self.key.as_str()) } else { Key::from(self.key.as_str()) }
    }

    pub(crate) fn lock(&self, coordinator: &Coordinator) -> Result<Lock> {
        match self.exact {
            true => Ok(Lock::Mutex(coordinator.mutex(self.name())?)),
            false => self.adapter.lock(coordinator, &self.key, None),
        }
    }
}
