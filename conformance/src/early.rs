//! A client process whose work ends early while it holds: by an error, or by a panic.

use std::panic::resume_unwind;

use latchwork_core::{Coordinator, Error, ErrorKind, Result};
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

use crate::order::{Early, Event, Order, Way, say};

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
