use std::panic::resume_unwind;
use std::sync::Arc;

use latchwork_core::{Config, Connector, Coordinator, Error, ErrorKind, Result, Token, connect};
use serde::{Deserialize, Serialize};

use super::contested::Contested;
use super::role::{Orders, Role};

/// Reports the token, and ends early after an order.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndsEarly {
    pub(crate) contested: Contested,
    pub(crate) by: WayOut,
    /// By [`Coordinator::close_after`], like `latchwork::with`.
    pub(crate) closes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WayOut {
    Error,
    Panic,
}

impl WayOut {
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Error => 1,
            Self::Panic => 101,
        }
    }
}

impl Role for EndsEarly {
    type Event = Token;

    const NAME: &'static str = "ends_early";
    const HAS_ONE_THREAD: bool = true;

    async fn work(self, connectors: &[Arc<dyn Connector>], config: &Config) -> Result<()> {
        let coordinator = connect(connectors, config).await?;
        let work = async |coordinator: Coordinator| self.hold(&coordinator).await;
        match self.closes {
            true => coordinator.close_after(work).await,
            false => work(coordinator).await,
        }
    }
}

impl EndsEarly {
    async fn hold(&self, coordinator: &Coordinator) -> Result<()> {
        let guard = self.contested.lock(coordinator)?.acquire().await?;
        Self::say(&guard.token());
        let _any = Orders::new().next().await;
        match self.by {
            WayOut::Error => Err(Error::new(ErrorKind::Conflict, "planted")),
            // The panic hook would write a page.
            WayOut::Panic => resume_unwind(Box::new("planted")),
        }
    }
}
