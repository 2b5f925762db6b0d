//! A client process whose work ends early while it holds: by an error, or by a panic.

use std::panic::resume_unwind;

use latchwork_core::{Coordinator, Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::contender::{Event, Order, say};

/// Work that ends early. It goes on to its end when it is told anything.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Early {
    /// By what.
    pub by: Way,
    /// Whether it runs under [`Coordinator::close_after`], as `latchwork::with` runs it. Else nobody closes.
    pub closes: bool,
}

/// A way out that nobody has planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// An early `?`.
    Error,
    /// A panic.
    Panic,
}

impl Way {
    /// With what a program ends whose `main` lets it through.
    pub(crate) fn code(self) -> i32 {
        match self {
            Self::Error => 1,
            Self::Panic => 101,
        }
    }
}

impl Early {
    pub(crate) async fn contend(self, coordinator: Coordinator, order: &Order) -> Result<()> {
        let work = async |coordinator: Coordinator| self.hold(&coordinator, order).await;
        match self.closes {
            true => coordinator.close_after(work).await,
            false => work(coordinator).await,
        }
    }

    async fn hold(self, coordinator: &Coordinator, order: &Order) -> Result<()> {
        let guard = order.lock(coordinator)?.acquire().await?;
        say(&Event::Held { token: guard.token(), waited_ms: 0 });
        // Whatever it says, or its end.
        let _told = BufReader::new(stdin()).lines().next_line().await;
        match self.by {
            Way::Error => Err(Error::new(ErrorKind::Conflict, "planted")),
            // As a panic that has been reported: no hook is called, which would write a page.
            Way::Panic => resume_unwind(Box::new("planted")),
        }
    }
}
