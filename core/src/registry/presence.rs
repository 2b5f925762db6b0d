//! Whether a client is registered, and which requests it may send then (CLIENT-ACTS-REGISTERED).

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::address::Address;
use crate::contracts::{Backend, Join, Joined, Node, RegistrationBound};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::registration::Registration;

/// Whether a client is in the registry.
#[derive(Clone, Debug)]
pub(super) enum Presence {
    /// It has read the stamp since it made this node. The bound covers this registration.
    Entered(Arc<dyn Node>, Arc<RegistrationBound>),
    /// It has no node, or its node is lost, and the last try to enter has failed.
    Away(Error),
    /// It may not enter any more.
    Out(Error),
}

/// The registration of a client: its node, and the bound of the nodes that are joined for under it.
type Own = (Arc<dyn Node>, Arc<RegistrationBound>);

impl Presence {
    fn own(&self) -> Option<Own> {
        match self {
            Presence::Entered(node, bound) => Some((Arc::clone(node), Arc::clone(bound))),
            Presence::Away(_) | Presence::Out(_) => None,
        }
    }

    /// Returns the registration if the client may act under it, by the clock at the call, as a hold is held. A
    /// closed client says so itself.
    fn lets(&self) -> Option<Result<Option<Own>>> {
        match self {
            Presence::Entered(node, _) => {
                matches!(node.state().lost(), None | Some(LostReason::Closed)).then(|| Ok(self.own()))
            }
            Presence::Away(_) => None,
            Presence::Out(why) => Some(Err(why.clone())),
        }
    }
}

/// A client that may act, and the registration under which it acts.
pub(super) struct Acting<'a> {
    pub(super) backend: &'a dyn Backend,
    own: Option<Own>,
}

impl Acting<'_> {
    /// Joins. If each node expires on its own, the node is lost with the registration that the join was sent under
    /// at the latest (CLIENT-HOLDS-REGISTERED). This does not apply to a cluster: its servers fail one by one, and
    /// only one of them has the registration.
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
            Presence::Entered(node, _) if node.state().lost().is_none() => Some(Registration {
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

    /// As [`acts`](Self::acts), for a request that leaves something on which others rely.
    pub(super) async fn works(&self) -> Result<Acting<'_>> {
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
