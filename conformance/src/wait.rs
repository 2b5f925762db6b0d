//! The patience of an acquisition.

use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::recipes::{Acquire, Guard};

/// The time that an acquisition waits for other holders.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// No time: it is a try.
    No,
    /// At most this time.
    AtMost(Duration),
    Forever,
}

impl Wait {
    /// Acquires by one of two requests. Returns `None` for a try if others hold.
    pub(crate) async fn take<G: Guard>(
        self,
        tries: Acquire<Option<G>>,
        waits: Acquire<G>,
    ) -> Result<Option<G>> {
        match self {
            Self::No => tries.await,
            Self::AtMost(time) => waits.within(time).await.map(Some),
            Self::Forever => waits.await.map(Some),
        }
    }
}
