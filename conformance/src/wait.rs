//! How long an acquisition waits.

use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::recipes::{Acquire, Guard};

/// How long an acquisition waits for other holders.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    /// It is a try.
    No,
    /// Until this time is over.
    AtMost(Duration),
    Forever,
}

impl Wait {
    /// Acquires by one of two requests. `None`: others hold, and it is a try.
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
