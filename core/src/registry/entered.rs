//! A client that has entered: it acts while it is registered (CLIENT-ACTS-REGISTERED).

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Notify, watch};

use super::place::is_writers;
use crate::address::{Address, Kind, QueuePrefix};
use crate::capabilities::Capabilities;
use crate::contracts::{
    Backend, Cell, CellPage, CellWrite, CellWritten, Cells, ChangeWatch, Close, Entry, Incarnation, Join,
    Joined, Lease, Node, Page, QueuePage, SequentialNodes, TimeToIdle,
};
use crate::decide::count::request::{Decided, Request};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::facts::ServerFacts;
use crate::token::Token;

/// How a client stands in the registry.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// It has read the stamp since it made this node.
    Entered(Arc<dyn Node>),
    /// Its node is lost, and the last try to enter anew has failed.
    Away(Error),
    /// It may not enter any more.
    Out(Error),
}

impl Presence {
    /// Whether it acts: by the clock at the call, as a hold is held. A closed client says so itself.
    fn lets(&self) -> Option<Result<()>> {
        match self {
            Presence::Entered(node) => {
                matches!(node.state().lost(), None | Some(LostReason::Closed)).then_some(Ok(()))
            }
            Presence::Away(_) => None,
            Presence::Out(why) => Some(Err(why.clone())),
        }
    }
}

/// A connected client. What would change anything on the server waits while its place in the
/// registry is lost: whoever lists the clients then does not see it. Reads do not wait.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) operator: bool,
    // The epoch of the tokens here.
    pub(super) epoch: Arc<AtomicU16>,
    pub(super) request_timeout: Duration,
    pub(super) standing: watch::Receiver<Presence>,
    /// Wakes the one who enters anew.
    pub(super) wanted: Arc<Notify>,
}

impl Entered {
    /// Answers as soon as the client is registered.
    ///
    /// # Errors
    /// Why it is not, and will not be; `Unavailable` when it is not registered within the request
    /// timeout, or when the next try fails.
    async fn acts(&self) -> Result<()> {
        if let Some(answer) = self.standing.borrow().lets() {
            return answer;
        }
        let mut standing = self.standing.clone();
        let clock = self.backend.lease().clock().clone();
        let until = clock.now() + self.request_timeout;
        loop {
            if let Some(answer) = standing.borrow_and_update().lets() {
                return answer;
            }
            self.wanted.notify_one();
            tokio::select! {
                changed = standing.changed() => match changed {
                    // Nobody enters anew: the client is closed, or its runtime has ended.
                    Err(_) => return Ok(()),
                    Ok(()) => if let Presence::Away(why) = &*standing.borrow_and_update() {
                        return Err(unregistered().because(why.clone()));
                    },
                },
                () = clock.sleep_until(until) => return Err(unregistered()),
            }
        }
    }

    /// Carries out what changes a value or a limit. Its answer counts if the place in the registry from which it
    /// was sent stands still, by the clock at the answer: what waited for longer than that may be behind a raised
    /// layout, or on the old side of a move behind the copy (CLIENT-ACTS-REGISTERED).
    ///
    /// # Errors
    /// Those of [`works`](Self::works) and of the change; `OutcomeUnknown` for an answer that does not count.
    async fn changes<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        self.works().await?;
        let from = match &*self.standing.borrow() {
            Presence::Entered(node) => Some(Arc::clone(node)),
            Presence::Away(_) | Presence::Out(_) => None,
        };
        let answer = change.await?;
        match from.and_then(|node| node.state().lost()) {
            None | Some(LostReason::Closed) => Ok(answer),
            Some(reason) => {
                let why = "this client has lost its place among the clients before the answer came";
                Err(Error::new(ErrorKind::OutcomeUnknown, why).because(Error::lost(reason)))
            }
        }
    }

    /// As [`acts`](Self::acts), for what leaves something that others rely on.
    async fn works(&self) -> Result<()> {
        match self.operator {
            true => Err(Error::new(
                ErrorKind::Misconfigured,
                "this client is connected as an operator, which takes no locks and changes no values",
            )),
            false => self.acts().await,
        }
    }
}

fn unregistered() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "this client has lost its place among the clients, and is not back yet",
    )
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl SequentialNodes for Entered {
    async fn join(&self, join: &Join) -> Result<Joined> {
        match is_writers(&join.queue) {
            true => self.acts().await?,
            false => self.works().await?,
        }
        self.backend.join(join).await
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        self.backend.abandon(join).await
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.backend.list(queue, page).await
    }

    async fn queues(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.backend.queues(of, after, most).await
    }

    fn watch_queue(&self, queue: &Address) -> Box<dyn ChangeWatch> {
        self.backend.watch_queue(queue)
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.acts().await?;
        self.backend.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.backend.limit(queue).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        self.changes(self.backend.set_limit(queue, limit)).await
    }

    async fn replace_limit(&self, queue: &Address, stored: Option<u32>, limit: u32) -> Result<bool> {
        self.acts().await?;
        self.backend.replace_limit(queue, stored, limit).await
    }

    async fn limited(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<QueuePage> {
        self.backend.limited(of, after, most).await
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Cells for Entered {
    async fn read_cell(&self, cell: &Address) -> Result<Option<Cell>> {
        self.backend.read_cell(cell).await
    }

    async fn write_cell(&self, cell: &Address, write: &CellWrite) -> Result<CellWritten> {
        // The stamp, and the stage of a move: an operator's.
        let written = self.backend.write_cell(cell, write);
        match cell.kind() == Kind::Layout {
            true => self.acts().await?,
            false => return self.changes(written).await,
        }
        written.await
    }

    async fn change_count(
        &self,
        cell: &Address,
        request: &Request,
        idle: Option<TimeToIdle>,
    ) -> Result<Option<Decided>> {
        self.changes(self.backend.change_count(cell, request, idle)).await
    }

    async fn cells(&self, of: &QueuePrefix, after: Option<&str>, most: usize) -> Result<CellPage> {
        self.backend.cells(of, after, most).await
    }

    fn watch_cell(&self, cell: &Address) -> Box<dyn ChangeWatch> {
        self.backend.watch_cell(cell)
    }
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl Backend for Entered {
    fn name(&self) -> &'static str {
        self.backend.name()
    }

    fn capabilities(&self) -> Capabilities {
        self.backend.capabilities()
    }

    fn lease(&self) -> Lease {
        self.backend.lease()
    }

    fn incarnation(&self) -> Incarnation {
        self.backend.incarnation()
    }

    fn token(&self, sequence: u64) -> Result<Token> {
        Token::new(self.epoch.load(Ordering::Acquire), sequence)
    }

    async fn server_facts(&self) -> Result<ServerFacts> {
        self.backend.server_facts().await
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.backend.close(how).await
    }
}
