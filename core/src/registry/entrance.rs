//! The entrance of a client: it registers, and reads the stamp.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;

use super::place::Place;
use super::record::ClientRecord;
use super::stamp::{Refusal, check, look};
use crate::address::Namespace;
use crate::cleanup::{Task, settle};
use crate::config::{Config, Participates};
use crate::contracts::{Backend, Join, Joined, Limit, Node, NodeId, Patience};
use crate::decide::life::Residue;
use crate::decide::moving::gate::Who;
use crate::decide::{Claim, join_obsolete_at};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::label::default_label;
use crate::support::{Backoff, Pauses, note_failure};
use crate::when_dropped::WhenDropped;

/// Whether the server was silent or hung up: the request may have been made.
fn had_no_answer(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Lost(reason) => reason != LostReason::Closed,
        kind => matches!(kind, ErrorKind::OutcomeUnknown | ErrorKind::Timeout),
    }
}

fn unregistered(error: Error, place: &Place) -> Error {
    let kind = match error.kind() {
        // After a first answer, the server was silent or hung up.
        ErrorKind::OutcomeUnknown | ErrorKind::Timeout | ErrorKind::Lost(_) | ErrorKind::Unavailable => {
            ErrorKind::Unavailable
        }
        ErrorKind::Forbidden => ErrorKind::Forbidden,
        _ => return error,
    };
    let Place { clients, stamp, .. } = place;
    let why = format!("each client registers itself in {clients:?} and reads {stamp:?}");
    Error::new(kind, why).because(error)
}

/// The way in which a client has entered.
pub(super) enum Entry {
    Registered(Arc<dyn Node>),
    /// An operator, on a server that refuses to register it for this reason.
    Reads(Error),
}

#[derive(Debug)]
pub(super) struct Entrance {
    pub(super) place: Place,
    label: Arc<str>,
    pub(super) record: Arc<[u8]>,
    layout: u32,
    pub(super) operator: bool,
    participates: Option<Participates>,
    pub(super) request_timeout: Duration,
    // The epoch of the tokens, as read last.
    epoch: Arc<AtomicU16>,
}

impl Entrance {
    pub(super) fn of(config: &Config, epoch: &Arc<AtomicU16>) -> Result<Self> {
        Ok(Self {
            place: Place::of(&Namespace::new(&config.namespace))?,
            label: config.label.as_deref().map_or_else(default_label, Arc::from),
            record: ClientRecord::own(
                config.layout,
                config.who(),
                config.participates.as_ref().map_or("", |of| &of.client),
            ),
            layout: config.layout,
            operator: config.operator,
            participates: config.participates.clone(),
            request_timeout: config.request_timeout,
            epoch: Arc::clone(epoch),
        })
    }

    /// Enters. Tries again while the server is silent. A refusal is final, but an operator whose registration
    /// is refused only reads.
    pub(super) async fn enter_at_last(&self, backend: &Arc<dyn Backend>) -> Result<Entry> {
        let mut backoff = Backoff::new(Pauses::OUTAGE);
        let mut silent = false;
        loop {
            let (error, again) = match self.enter(backend).await {
                Ok(node) => return Ok(Entry::Registered(node)),
                Err(Refusal::Older(error) | Refusal::Moved(error)) => (error, false),
                Err(Refusal::Unregistered(error) | Refusal::Unread(error))
                    if self.operator && !had_no_answer(&error) && self.looks(&**backend).await? =>
                {
                    return Ok(Entry::Reads(unregistered(error, &self.place)));
                }
                // After a silent try, later tries may fail before they are sent.
                Err(Refusal::Unregistered(error)) => {
                    let again = had_no_answer(&error) || silent && error.may_pass();
                    (error, again)
                }
                // The server has let the client register.
                Err(Refusal::Unread(error)) => {
                    let again = error.may_pass();
                    (error, again)
                }
            };
            let error = unregistered(error, &self.place);
            if !again {
                return Err(error);
            }
            tracing::debug!(%error, "this client is not registered yet");
            note_failure(&error);
            silent = true;
            backoff.wait(backend.lease().clock()).await;
        }
    }

    fn who(&self) -> Who<'_> {
        Who::of(self.operator, self.participates.as_ref().map(|of| &*of.name))
    }

    /// Reads the stamp, and writes nothing. Returns whether the server has answered.
    ///
    /// # Errors
    /// The namespace has a newer layout, or a marker excludes this client.
    async fn looks(&self, backend: &dyn Backend) -> Result<bool> {
        match look(backend, &self.place, self.layout, self.who()).await {
            Ok(epoch) => {
                self.epoch.store(epoch, Ordering::Release);
                Ok(true)
            }
            Err(Refusal::Older(error) | Refusal::Moved(error)) => Err(error),
            Err(Refusal::Unregistered(_) | Refusal::Unread(_)) => Ok(false),
        }
    }

    /// Registers, and then reads the stamp (CLIENT-REGISTER-FIRST), in one try.
    pub(super) async fn enter(
        &self,
        backend: &Arc<dyn Backend>,
    ) -> std::result::Result<Arc<dyn Node>, Refusal> {
        let node = self.register(backend).await.map_err(Refusal::Unregistered)?;
        let left = Task::leave(&self.place.clients, &node);
        // Otherwise the node would remain until its lease ends.
        let registered = WhenDropped::new(|| self.undo(backend, left.clone()));
        match check(&**backend, &self.place, self.layout, self.who()).await {
            Ok(epoch) => {
                self.epoch.store(epoch, Ordering::Release);
                registered.disarm();
                Ok(node)
            }
            Err(refused @ (Refusal::Older(_) | Refusal::Moved(_))) => {
                // The later close may be abrupt, and the server has just answered.
                remove(&**backend, &left, self.request_timeout).await;
                registered.disarm();
                Err(refused)
            }
            Err(unread) => Err(unread),
        }
    }

    async fn register(&self, backend: &Arc<dyn Backend>) -> Result<Arc<dyn Node>> {
        let join = Join {
            queue: self.place.clients.clone(),
            id: NodeId::random(),
            claim: Claim::Shared,
            limit: Limit::Stored,
            label: Arc::clone(&self.label),
            data: Arc::clone(&self.record),
            patience: Patience::Wait,
            repeated: false,
        };
        let sent = backend.lease().clock().now();
        let answer = backend.join(&join).await;
        if Residue::of(&join, &answer) == Residue::Unknown {
            let lease = backend.lease();
            let obsolete_at = join_obsolete_at(lease.clock().now(), self.request_timeout, lease.ttl());
            self.undo(backend, Task::Abandon { join, obsolete_at });
        }
        match answer? {
            Joined::Admitted(node) => {
                let held = node.state().change(|life, seen| life.hold(sent, None, seen));
                if let Err((reason, _)) = held {
                    self.undo(backend, Task::leave(&self.place.clients, &node));
                    return Err(Error::lost(reason));
                }
                Ok(node)
            }
            // A foreign node is ahead of it. Listings show this client all the same.
            Joined::Waiting(node) => Ok(node),
            Joined::Refused => {
                Err(Error::new(ErrorKind::Conflict, "the queue of clients did not admit this client"))
            }
        }
    }

    /// Removes an unused node in the background. Without a runtime, the lease removes it.
    pub(super) fn undo(&self, backend: &Arc<dyn Backend>, task: Task) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (backend, request_timeout) = (Arc::clone(backend), self.request_timeout);
        runtime.spawn(async move { remove(&*backend, &task, request_timeout).await });
    }
}

async fn remove(backend: &dyn Backend, task: &Task, request_timeout: Duration) {
    if let (_, Err(error)) = settle(backend, task, request_timeout).await {
        tracing::debug!(%error, "could not remove a node from the queue of clients: it expires with its lease");
    }
}
