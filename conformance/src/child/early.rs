//! A child whose work ends early while it holds: by an error, or by a panic.

use std::panic::resume_unwind;
use std::sync::Arc;

use latchwork_core::{Config, Connector, Coordinator, Error, ErrorKind, Result, Token, connect};
use serde::{Deserialize, Serialize};

use super::contested::Contested;
use super::role::{Orders, Role};

/// Holds until an order, and then ends early. Reports the token when it holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndsEarly {
    pub(crate) contested: Contested,
    pub(crate) by: WayOut,
    /// Whether the work runs under [`Coordinator::close_after`], as in `latchwork::with`. Otherwise the coordinator is
    /// not closed.
    pub(crate) closes: bool,
}

/// How work ends early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WayOut {
    /// An early `?`.
    Error,
    /// A panic.
    Panic,
}

impl WayOut {
    /// The exit code of a program that does not handle it.
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
            // As a panic that has been reported: no hook is called, which would write a page.
            WayOut::Panic => resume_unwind(Box::new("planted")),
        }
    }
}
