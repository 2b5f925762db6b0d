//! Permits that others hold all the time beside a semaphore that is played as a mutex.

use std::collections::HashMap;

use latchwork_core::recipes::Permit;
use latchwork_core::{Coordinator, Result};

/// Of the five permits, so many are taken.
pub(crate) const TAKEN: u32 = 4;

/// The permits that a client of its own holds, of each key that a case touches, for as long as the
/// case lasts.
#[derive(Debug)]
pub(crate) struct Taken {
    coordinator: Coordinator,
    permits: tokio::sync::Mutex<HashMap<String, Permit>>,
}

impl Taken {
    pub(crate) fn by(coordinator: Coordinator) -> Self {
        Self { coordinator, permits: tokio::sync::Mutex::default() }
    }

    /// Takes the permits of `key`, once, and answers with the node that holds them.
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

    /// Gives all of them back. Whatever happened in the case, they were held until now: else it was
    /// no mutex that was tried.
    pub(crate) async fn give_back(&self) -> Result<()> {
        for (key, permit) in self.permits.lock().await.drain() {
            let released = permit.release().await;
            let lost = released.as_ref().err().and_then(latchwork_core::Error::lost_reason);
            assert_eq!(lost, None, "the permits of {key:?} that were to be taken all the time");
            released?;
        }
        self.coordinator.close().await
    }
}
