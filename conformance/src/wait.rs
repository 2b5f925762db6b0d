use std::time::Duration;

use latchwork_core::Result;
use latchwork_core::recipes::{Acquire, Guard};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Wait {
    No,
    AtMost(Duration),
    Forever,
}

impl Wait {
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
