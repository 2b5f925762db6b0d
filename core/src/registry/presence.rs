//! Whether a client is registered, and which requests it may send then (CLIENT-ACTS-REGISTERED).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::address::Address;
use crate::contracts::{Backend, Node};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::registration::Registration;

/// Whether a client is in the registry.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// It has read the stamp since it made this node.
    Entered(Arc<dyn Node>),
    /// It has no node, or its node is lost, and the last try to enter has failed.
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

/// A client that has entered once. A request that would change anything on the server waits while
/// the client's place in the registry is lost: a listing of the clients does not show it then. Reads
/// do not wait.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) operator: bool,
    pub(super) request_timeout: Duration,
    pub(super) presence: watch::Receiver<Presence>,
    /// Wakes the task that enters again.
    pub(super) wanted: Arc<Notify>,
    /// The queue of the clients, and the data of this client's node there.
    pub(super) clients: Address,
    pub(super) record: Arc<[u8]>,
}

impl Entered {
    /// Returns the place of the client in the registry, while it has one.
    pub(super) fn registration(&self) -> Option<Registration> {
        match &*self.presence.borrow() {
            Presence::Entered(node) if node.state().lost().is_none() => Some(Registration {
                clients: self.clients.clone(),
                sequence: node.state().sequence(),
                record: Arc::clone(&self.record),
            }),
            _ => None,
        }
    }

    /// Answers as soon as the client is registered.
    ///
    /// # Errors
    /// Why it is not, and will not be; `Unavailable` when it is not registered within the request
    /// timeout, or when the next try fails.
    pub(super) async fn acts(&self) -> Result<&dyn Backend> {
        if let Some(answer) = self.presence.borrow().lets() {
            return answer.map(|()| &*self.backend);
        }
        let mut presence = self.presence.clone();
        let clock = self.backend.lease().clock().clone();
        let until = clock.now() + self.request_timeout;
        loop {
            if let Some(answer) = presence.borrow_and_update().lets() {
                return answer.map(|()| &*self.backend);
            }
            self.wanted.notify_one();
            tokio::select! {
                changed = presence.changed() => match changed {
                    // No task enters again: the client is closed, or its runtime has ended.
                    Err(_) => return Ok(&*self.backend),
                    Ok(()) => if let Presence::Away(why) = &*presence.borrow_and_update() {
                        return Err(unregistered().because(why.clone()));
                    },
                },
                () = clock.sleep_until(until) => return Err(unregistered()),
            }
        }
    }

    /// As [`acts`](Self::acts), for a request that leaves something on which others rely.
    pub(super) async fn works(&self) -> Result<&dyn Backend> {
        match self.operator {
            true => Err(Error::new(
                ErrorKind::Misconfigured,
                "this client is an operator, which takes no locks and changes no values: connect without as_operator",
            )),
            false => self.acts().await,
        }
    }

    /// Carries out a change of a value or a limit. Its answer counts if the registration that it was sent
    /// under is still valid, by the clock at the answer: a change that waited for longer may come after a
    /// raised layout, or on the old side of a move after the copy (CLIENT-ACTS-REGISTERED).
    ///
    /// # Errors
    /// As [`works`](Self::works), and the change's errors; `OutcomeUnknown` for an answer that does not count.
    pub(super) async fn changes<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        self.works().await?;
        let from = match &*self.presence.borrow() {
            Presence::Entered(node) => Some(Arc::clone(node)),
            Presence::Away(_) | Presence::Out(_) => None,
        };
        let answer = change.await?;
        match from.and_then(|node| node.state().lost()) {
            None | Some(LostReason::Closed) => Ok(answer),
            Some(reason) => {
                let why = "this client lost its registration before the answer came";
                Err(Error::new(ErrorKind::OutcomeUnknown, why).because(Error::lost(reason)))
            }
        }
    }
}

fn unregistered() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "this client is not registered now, and changes nothing until it is: try again",
    )
}
