//! Permits of another client, while a semaphore takes the place of a mutex.

use std::collections::HashMap;

use latchwork_core::recipes::Permit;
use latchwork_core::{Coordinator, Result};

/// Of five.
pub(crate) const TAKEN: u32 = 4;

#[derive(Debug)]
pub(crate) struct Taken {
    coordinator: Coordinator,
    permits: tokio::sync::Mutex<HashMap<String, Permit>>,
}

impl Taken {
    pub(crate) fn by(coordinator: Coordinator) -> Self {
        Self { coordinator, permits: tokio::sync::Mutex::default() }
    }

    pub(crate) async fn take(&self, key: &str) -> Result<u64> {
        let mut permits = self.permits.lock().await;
        if let Some(permit) = permits.get(key) {
            return Ok(permit.sequence());
        }
        let permit = self.coordinator.semaphore(key, TAKEN + 1)?.acquire(TAKEN).await?;
        let node = permit.sequence();
        permits.insert(key.to_owned(), permit);
        Ok(node)
    }

    /// If a permit is lost, the semaphore was not a mutex in this case.
    pub(crate) async fn give_back(&self) -> Result<()> {
        for (key, permit) in self.permits.lock().await.drain() {
            let released = permit.release().await;
            let lost = released.as_ref().err().and_then(latchwork_core::Error::lost_reason);
            assert_eq!(lost, None, "the permits of {key:?} must be held during the whole case");
            released?;
        }
        self.coordinator.close().await
    }
}
