//! A client's own node in the registry, from the connect to the close.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};

use super::lease_report::LeaseReport;
use super::place::Place;
use super::presence::{Entered, Presence};
use super::record::ClientRecord;
use super::stamp::{Refusal, check};
use crate::address::Namespace;
use crate::cleanup::{Task, settle};
use crate::config::Config;
use crate::connector::Connector;
use crate::contracts::{Backend, Close, Join, Joined, Limit, Node, NodeId, Patience};
use crate::decide::life::Residue;
use crate::decide::moving::gate::Who;
use crate::decide::{Claim, join_obsolete_at};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::label::default_label;
use crate::seen;
use crate::shown::in_millis;
use crate::support::{Backoff, connect_within, note_failure};

/// The shortest time between two tries to enter anew.
const PAUSE: Duration = Duration::from_millis(20);

/// Connects and enters within `connect_timeout`, and keeps the `epoch` of the tokens. The client stays
/// registered until it is closed.
pub(super) async fn connect_in_time(
    connector: &dyn Connector,
    config: &Config,
    epoch: &Arc<AtomicU16>,
) -> Result<Entered> {
    let begun = Instant::now();
    let entrance = Entrance::of(config, epoch)?;
    let connecting = async {
        let backend = connector.connect(config).await?;
        let dropped = ClosedWhenDropped(Some(Arc::clone(&backend)));
        match entrance.enter_at_last(&backend).await {
            Ok(node) => {
                dropped.disarm();
                seen::describe();
                Ok(entrance.entered(backend, node))
            }
            Err(refused) => {
                if let Err(error) = backend.close(Close::Orderly).await {
                    tracing::debug!(%error, "a client that did not enter was not closed in order");
                }
                dropped.disarm();
                Err(refused)
            }
        }
    };
    let connected = connect_within(config.connect_timeout, &config.backend, &config.hosts, connecting).await;
    let entered = connected.map_err(|error| error.in_operation("connect"))?;
    let took = in_millis(begun.elapsed());
    seen::connected(connector.name(), &config.hosts.join(","), took);
    Ok(entered)
}

/// A client that is entering, or is closed since it may not. It is given back in the background when
/// the connect is dropped, or takes too long: its lease would be renewed by nobody, and its node stand
/// until it ends.
struct ClosedWhenDropped(Option<Arc<dyn Backend>>);

impl ClosedWhenDropped {
    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ClosedWhenDropped {
    fn drop(&mut self) {
        if let (Some(backend), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                if let Err(error) = backend.close(Close::Orderly).await {
                    tracing::debug!(%error, "a dropped connect was not given back; its lease runs out");
                }
            });
        }
    }
}

/// Whether a request may have been made, or the lease ended under it: the server was silent, or hung up.
fn had_no_answer(error: &Error) -> bool {
    match error.kind() {
        ErrorKind::Lost(reason) => reason != LostReason::Closed,
        kind => matches!(kind, ErrorKind::OutcomeUnknown | ErrorKind::Timeout),
    }
}

/// The error of a connect whose client could not enter.
fn unregistered(error: Error, place: &Place) -> Error {
    let kind = match error.kind() {
        // The server went silent, or hung up, since it was asked first.
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

/// What a client enters with.
#[derive(Debug)]
struct Entrance {
    place: Place,
    label: Arc<str>,
    record: Arc<[u8]>,
    layout: u32,
    operator: bool,
    participates: Option<Arc<str>>,
    request_timeout: Duration,
    // The epoch of the tokens here, as it was read last.
    epoch: Arc<AtomicU16>,
}

impl Entrance {
    fn of(config: &Config, epoch: &Arc<AtomicU16>) -> Result<Self> {
        Ok(Self {
            place: Place::of(&Namespace::new(&config.namespace))?,
            label: config.label.as_deref().map_or_else(default_label, Arc::from),
            record: ClientRecord::own(config.layout, config.who()),
            layout: config.layout,
            operator: config.operator,
            participates: config.participates.clone(),
            request_timeout: config.request_timeout,
            epoch: Arc::clone(epoch),
        })
    }

    /// The client, which has this node, and enters anew by itself.
    fn entered(self, backend: Arc<dyn Backend>, node: Arc<dyn Node>) -> Entered {
        let (stands, presence) = watch::channel(Presence::Entered(Arc::clone(&node)));
        let wanted = Arc::new(Notify::new());
        let (operator, request_timeout) = (self.operator, self.request_timeout);
        let report = LeaseReport::of(backend.name());
        let keeper = Keeper { entrance: self, stands, wanted: Arc::clone(&wanted) };
        tokio::spawn(keeper.keep(Arc::downgrade(&backend), node, report));
        Entered { backend, operator, request_timeout, presence, wanted }
    }

    /// Enters, again and again while the server is silent: the connect bounds the time. What was refused is
    /// not asked again.
    async fn enter_at_last(&self, backend: &Arc<dyn Backend>) -> Result<Arc<dyn Node>> {
        let mut backoff = Backoff::new(PAUSE, self.request_timeout.max(PAUSE));
        let mut silent = false;
        loop {
            let (error, again) = match self.enter(backend).await {
                Ok(node) => return Ok(node),
                Err(Refusal::Older(error) | Refusal::Moved(error)) => (error, false),
                // The next ones behind a try without an answer may not be sent at all.
                Err(Refusal::Unregistered(error)) => {
                    let again = had_no_answer(&error) || silent && error.may_pass();
                    (error, again)
                }
                // A server that has let the client register.
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

    /// Registers, and then reads the stamp (CLIENT-REGISTER-FIRST). One try.
    async fn enter(&self, backend: &Arc<dyn Backend>) -> std::result::Result<Arc<dyn Node>, Refusal> {
        let node = self.register(backend).await.map_err(Refusal::Unregistered)?;
        let registered = LeftWhenDropped { entrance: self, backend, node: Some(node) };
        let who = Who::of(self.operator, self.participates.as_deref());
        match check(&**backend, &self.place, self.layout, who).await {
            Ok(epoch) => {
                self.epoch.store(epoch, Ordering::Release);
                Ok(registered.entered())
            }
            Err(refused @ (Refusal::Older(_) | Refusal::Moved(_))) => {
                // Before the client is closed, which may be an abrupt one.
                registered.leave().await;
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
            // What stands in front of it is none of ours. It is listed all the same.
            Joined::Waiting(node) => Ok(node),
            Joined::Refused => {
                Err(Error::new(ErrorKind::Conflict, "it was not let into the queue of clients"))
            }
        }
    }

    /// Removes in the background what does not stay; without a runtime the lease does.
    fn undo(&self, backend: &Arc<dyn Backend>, task: Task) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (backend, request_timeout) = (Arc::clone(backend), self.request_timeout);
        runtime.spawn(async move { remove(&*backend, &task, request_timeout).await });
    }
}

/// Removes what does not stay, or leaves it to the lease.
async fn remove(backend: &dyn Backend, task: &Task, request_timeout: Duration) {
    if let (_, Err(error)) = settle(backend, task, request_timeout).await {
        tracing::debug!(%error, "a place in the queue of clients is left to its lease");
    }
}

/// A place among the clients, until the stamp is read. It is given back when that fails or is dropped: a
/// backend forgets a node that nobody has, and it would stand until its lease ends.
struct LeftWhenDropped<'a> {
    entrance: &'a Entrance,
    backend: &'a Arc<dyn Backend>,
    node: Option<Arc<dyn Node>>,
}

impl LeftWhenDropped<'_> {
    fn entered(mut self) -> Arc<dyn Node> {
        self.node.take().expect("taken once")
    }

    /// Gives it back to a server that has just answered. Dropped, it does so in the background.
    async fn leave(mut self) {
        let Self { entrance, backend, node } = &self;
        let task = Task::leave(&entrance.place.clients, node.as_ref().expect("it is there until then"));
        remove(&***backend, &task, entrance.request_timeout).await;
        self.node = None;
    }
}

impl Drop for LeftWhenDropped<'_> {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            self.entrance.undo(self.backend, Task::leave(&self.entrance.place.clients, &node));
        }
    }
}

/// Keeps a client registered.
struct Keeper {
    entrance: Entrance,
    stands: watch::Sender<Presence>,
    wanted: Arc<Notify>,
}

impl Keeper {
    /// Enters anew whenever the node is lost, until the client is closed. Reports meanwhile how its
    /// lease fares, which is as those of all its nodes.
    async fn keep(self, backend: Weak<dyn Backend>, mut node: Arc<dyn Node>, mut report: LeaseReport) {
        loop {
            let reason = report.until_lost(&*node).await;
            if reason == LostReason::Closed {
                return;
            }
            seen::registered_anew(report.backend(), reason);
            match self.enter_anew(&backend, &node).await {
                Some(anew) => {
                    node = Arc::clone(&anew);
                    self.stands.send_replace(Presence::Entered(anew));
                }
                None => return,
            }
        }
    }

    /// `None` when the client has ended.
    async fn enter_anew(&self, backend: &Weak<dyn Backend>, lost: &Arc<dyn Node>) -> Option<Arc<dyn Node>> {
        let lease = lost.state().lease();
        let mut backoff = Backoff::new(Duration::from_millis(50), lease.ttl() / 4);
        // It may stand on the server still.
        let left = Task::leave(&self.entrance.place.clients, lost);
        self.entrance.undo(&backend.upgrade()?, left);
        let mut may_repeat = true;
        loop {
            let client = backend.upgrade()?;
            let error = match self.entrance.enter(&client).await {
                Ok(node) => return Some(node),
                Err(Refusal::Older(error)) => {
                    seen::layout_ended(client.name(), &error);
                    return self.end(&*client, error).await;
                }
                Err(Refusal::Moved(error)) => {
                    seen::move_ended(client.name(), &error);
                    return self.end(&*client, error).await;
                }
                Err(Refusal::Unregistered(error) | Refusal::Unread(error)) => match error.kind() {
                    ErrorKind::Closed => return None,
                    _ => error,
                },
            };
            drop(client);
            tracing::debug!(%error, "this client is not registered yet");
            // The end of its node is heard before that of its lease. A try on that lease has made nothing, and the
            // next one is on another: those who wait get the answer of that one.
            if error.lost_reason().is_some() && std::mem::take(&mut may_repeat) {
                continue;
            }
            self.stands.send_replace(Presence::Away(error));
            let clock = lease.clock();
            tokio::select! {
                () = backoff.wait(clock) => {}
                // Somebody waits for it: soon, though not at once, since many may.
                () = async {
                    clock.sleep_until(clock.now() + PAUSE).await;
                    self.wanted.notified().await;
                } => {}
            }
        }
    }

    /// The client has no place here any more. Its holds run out, so that the work under them ends
    /// before another is admitted.
    async fn end(&self, client: &dyn Backend, why: Error) -> Option<Arc<dyn Node>> {
        self.stands.send_replace(Presence::Out(why));
        // An abrupt close sends nothing, so it cannot fail.
        let _ = client.close(Close::Abrupt).await;
        None
    }
}
