//! Whether a client is registered, and which requests it may send (CLIENT-ACTS-REGISTERED).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::address::Address;
use crate::contracts::{Backend, Join, Joined, Node, RegistrationBound};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::registration::Registration;

#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// The client has read the stamp since it made this node. The bound covers this registration.
    Entered(Own),
    /// The client has no node, and the last try to enter has failed.
    Away(Error),
    /// The client may not enter any more.
    Out(Error),
}

/// The client's node, and the bound of the nodes that are joined under it.
pub(super) type Own = (Arc<dyn Node>, Arc<RegistrationBound>);

impl Presence {
    fn own(&self) -> Option<Own> {
        match self {
            Presence::Entered(own) => Some(own.clone()),
            Presence::Away(_) | Presence::Out(_) => None,
        }
    }

    /// Returns the registration if the client may act under it now. A closed client reports that itself.
    fn lets(&self) -> Option<Result<Option<Own>>> {
        match self {
            Presence::Entered((node, _)) => {
                matches!(node.state().lost(), None | Some(LostReason::Closed)).then(|| Ok(self.own()))
            }
            Presence::Away(_) => None,
            Presence::Out(why) => Some(Err(why.clone())),
        }
    }
}

pub(super) struct Acting<'a> {
    pub(super) backend: &'a dyn Backend,
    own: Option<Own>,
}

impl Acting<'_> {
    /// Joins. If each node has its own lease, the node is lost at the latest with this registration
    /// (CLIENT-HOLDS-REGISTERED). A cluster is an exception: only one of its servers has the registration,
    /// and they fail one by one.
    pub(super) async fn join(self, join: &Join) -> Result<Joined> {
        let joined = self.backend.join(join).await?;
        let of = self.backend.capabilities();
        if let (Joined::Admitted(node) | Joined::Waiting(node), Some((_, bound))) = (&joined, self.own)
            && of.lease_per_node
            && of.held_writes
        {
            node.state().bound_by(&bound);
        }
        Ok(joined)
    }
}

/// A client that has entered once. Without a registration no listing shows it, so its changes wait, but not
/// its reads.
#[derive(Debug)]
pub(super) struct Entered {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) operator: bool,
    pub(super) request_timeout: Duration,
    pub(super) presence: watch::Receiver<Presence>,
    pub(super) wanted: Arc<Notify>,
    pub(super) clients: Address,
    pub(super) record: Arc<[u8]>,
}

impl Entered {
    pub(super) fn registration(&self) -> Option<Registration> {
        match &*self.presence.borrow() {
            Presence::Entered((node, _)) if node.state().lost().is_none() => Some(Registration {
                clients: self.clients.clone(),
                sequence: node.state().sequence(),
                record: Arc::clone(&self.record),
            }),
            _ => None,
        }
    }

    /// Waits until the client is registered.
    ///
    /// # Errors
    /// The reason if the client may not enter; `Unavailable` after the request timeout, or if the next try
    /// fails.
    pub(super) async fn acts(&self) -> Result<Acting<'_>> {
        let acting = |own| Acting { backend: &*self.backend, own };
        if let Some(answer) = self.presence.borrow().lets() {
            return answer.map(acting);
        }
        let mut presence = self.presence.clone();
        let clock = self.backend.lease().clock().clone();
        let until = clock.now() + self.request_timeout;
        loop {
            if let Some(answer) = presence.borrow_and_update().lets() {
                return answer.map(acting);
            }
            self.wanted.notify_one();
            tokio::select! {
                changed = presence.changed() => match changed {
                    // No task enters again: the client is closed, or its runtime has ended.
                    Err(_) => return Ok(acting(presence.borrow().own())),
                    Ok(()) => if let Presence::Away(why) = &*presence.borrow_and_update() {
                        return Err(unregistered().because(why.clone()));
                    },
                },
                () = clock.sleep_until(until) => return Err(unregistered()),
            }
        }
    }

    /// As [`acts`](Self::acts), for locks and changes of values, which an operator may not send.
    pub(super) async fn works(&self) -> Result<Acting<'_>> {
        match self.operator {
            true => Err(Error::new(
                ErrorKind::Misconfigured,
                "this client is an operator, which takes no locks and changes no values: connect without as_operator",
            )),
            false => self.acts().await,
        }
    }

    /// Changes a value or a limit. The answer counts if the registration is still valid then. Otherwise the
    /// change may have come after a raised layout, or after the copy of a move (CLIENT-ACTS-REGISTERED).
    ///
    /// # Errors
    /// As [`works`](Self::works), and the change's errors; `OutcomeUnknown` for an answer that does not
    /// count.
    pub(super) async fn changes<T>(&self, change: impl Future<Output = Result<T>>) -> Result<T> {
        let own = self.works().await?.own;
        let answer = change.await?;
        match own.and_then(|(node, _)| node.state().lost()) {
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
