//! One acquisition: a join, its retries under the same name, the wait, and the clean-up of what is dropped.
//!
//! Why it is safe: an attempt has one random id; every request of it carries the id, so the server makes
//! at most one node (NODE-IDEMPOTENT). Whatever ends the future (an error, a deadline, a drop at any
//! await) drops the [`Attempt`], which hands what it may have left on the server to the
//! [`Departures`]. Only an attempt that was admitted under a lease that is still alive becomes a
//! hold.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::address::Address;
use crate::clock::{Clock, Moment};
use crate::contracts::{Backend, Join, Joined, LeaseState, Node, NodeId, Patience};
use crate::decide::Claim;
use crate::departures::{Departure, Departures};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::pauses::Pauses;
use crate::token::Token;

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) queue: Address,
    pub(crate) claim: Claim,
    pub(crate) limit: Option<u32>,
    pub(crate) label: Arc<str>,
    pub(crate) patience: Patience,
    /// The total deadline (for a try: of its answer); `Moment::NEVER` for none.
    pub(crate) deadline: Moment,
    /// The bound of one request.
    pub(crate) request_timeout: Duration,
    /// A fixed end, from the send of an uncontended join or from the admission.
    pub(crate) max_hold: Option<Duration>,
    /// Told when it is not admitted at once.
    pub(crate) on_queue: Option<OnQueue>,
}

impl Request {
    /// When it gives up on a server that does not answer: after one TTL where it has no deadline of its own; with one, that is
    /// what it waits for.
    fn give_up(&self, clock: &Clock, backend: &Arc<dyn Backend>) -> Moment {
        match self.deadline {
            Moment::NEVER => clock.now() + backend.lease().ttl(),
            _ => Moment::NEVER,
        }
    }
}

/// A call for when an acquisition has joined a queue and others are before it.
#[derive(Clone)]
pub(crate) struct OnQueue(Arc<dyn Fn() + Send + Sync>);

impl OnQueue {
    pub(crate) fn new(tell: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }
}

impl fmt::Debug for OnQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnQueue")
    }
}

/// An admitted node. Whoever takes it makes a hold of it without an await in between, so that no drop can lose it.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) waited: Duration,
}

/// Acquires: `None` for a try that was refused.
pub(crate) async fn acquire(
    backend: &Arc<dyn Backend>,
    departures: &Departures,
    request: &Request,
) -> Result<Option<Admitted>> {
    let clock = backend.lease().clock().clone();
    let started = clock.now();
    let obstacle = Obstacle::new();
    let all = acquire_now(backend, departures, request, &clock, &obstacle);
    let answer = if request.deadline == Moment::NEVER {
        all.await
    } else {
        tokio::select! {
            biased;
            answer = all => answer,
            () = clock.sleep_until(request.deadline) => Err(obstacle.explain(late(request.patience))),
        }
    };
    let node = answer.map_err(|error| {
        let closed = error.lost_reason() == Some(LostReason::Closed);
        // To who waits, the lease's end by a close is the close.
        if closed { Error::closed() } else { error }.on(request.queue.name())
    })?;
    Ok(node.map(|node| Admitted { node, waited: clock.now().since(started) }))
}

/// What a passed deadline means: a try's is the request timeout, for it never waits for anything but an answer.
pub(crate) fn late(patience: Patience) -> Error {
    match patience {
        Patience::Wait => {
            Error::new(ErrorKind::Timeout, "not acquired in time; its place in the queue is being given back")
        }
        Patience::Try => Error::new(ErrorKind::Unavailable, "no answer within the request timeout"),
    }
}

/// What kept an acquisition from the queue up to now: who reads that its deadline passed has to know whether others held all
/// the time, or nobody answered.
#[derive(Debug)]
struct Obstacle(Mutex<Option<Error>>);

impl Obstacle {
    fn new() -> Self {
        let silent = Error::new(ErrorKind::Unavailable, "the coordinator has not answered");
        Self(Mutex::new(Some(silent)))
    }

    fn met(&self, error: &Error) {
        *self.0.lock() = Some(error.clone());
    }

    /// It stands in the queue.
    fn overcome(&self) {
        *self.0.lock() = None;
    }

    fn explain(&self, late: Error) -> Error {
        match self.0.lock().take() {
            Some(error) => late.because(error),
            None => late,
        }
    }
}

async fn acquire_now(
    backend: &Arc<dyn Backend>,
    departures: &Departures,
    request: &Request,
    clock: &Clock,
    obstacle: &Obstacle,
) -> Result<Option<Arc<dyn Node>>> {
    let mut give_up = request.give_up(clock, backend);
    // Behind what has no answer it may join all the same: it stands behind that then.
    tokio::select! {
        biased;
        () = departures.settled(&request.queue) => {}
        () = clock.sleep_until(give_up) => {}
    }
    // The first new attempt is due at once. More in a row mean that no lease holds: they are paced.
    let (mut pause, mut pauses) = (Duration::ZERO, retries());
    loop {
        let mut attempt = Attempt::new(backend, departures, request, clock, obstacle);
        match attempt.run(request, give_up).await? {
            Outcome::Refused => return Ok(None),
            Outcome::Admitted(node) => {
                attempt.keep();
                return Ok(Some(node));
            }
            Outcome::Again => drop(attempt),
        }
        if request.patience == Patience::Try {
            // What the attempt has left must not be what refuses the next: a try does not wait in the queue.
            departures.settled(&request.queue).await;
        }
        clock.sleep_until(clock.now() + pause).await;
        pause = pauses.next();
        give_up = request.give_up(clock, backend);
    }
}

fn retries() -> Pauses {
    Pauses::new(Duration::from_millis(10), Duration::from_millis(500))
}

/// What became of an attempt.
enum Outcome {
    Refused,
    /// The lease was lost under it: a new attempt is due.
    Again,
    Admitted(Arc<dyn Node>),
}

enum Progress {
    Refused,
    /// The lease was lost under the attempt: a new attempt is due.
    Again,
    Node {
        sent: Moment,
        admitted: bool,
    },
}

/// An attempt under way. Dropping it takes back what it may have left.
struct Attempt<'a> {
    backend: &'a Arc<dyn Backend>,
    departures: &'a Departures,
    clock: &'a Clock,
    obstacle: &'a Obstacle,
    request_timeout: Duration,
    join: Join,
    left: Left,
}

/// What an attempt may have on the server.
enum Left {
    Nothing,
    Unknown,
    Node(Arc<dyn Node>),
}

impl<'a> Attempt<'a> {
    fn new(
        backend: &'a Arc<dyn Backend>,
        departures: &'a Departures,
        request: &Request,
        clock: &'a Clock,
        obstacle: &'a Obstacle,
    ) -> Self {
        let join = Join {
            queue: request.queue.clone(),
            id: NodeId::random(),
            claim: request.claim,
            limit: request.limit,
            label: Arc::clone(&request.label),
            patience: request.patience,
            repeated: false,
        };
        let request_timeout = request.request_timeout;
        Self { backend, departures, clock, obstacle, request_timeout, join, left: Left::Nothing }
    }

    /// Joins and waits, until it is over. What it admits is the caller's to [`keep`](Attempt::keep).
    async fn run(&mut self, request: &Request, give_up: Moment) -> Result<Outcome> {
        let (sent, admitted) = match self.join(give_up).await? {
            Progress::Refused => return Ok(Outcome::Refused),
            Progress::Again => return Ok(Outcome::Again),
            Progress::Node { sent, admitted } => (sent, admitted),
        };
        let node = self.node();
        let from = if admitted {
            // What opened the lease first, a connection even, is no part of the hold.
            sent.max(node.state().lease().opened())
        } else {
            if let Some(OnQueue(tell)) = &request.on_queue {
                tell();
            }
            match node.admitted().await {
                Ok(()) => self.clock.now(),
                // Our lease ran out while we waited, so the place in the queue is lost: again,
                // at the tail, under a new lease (RULES A15).
                Err(error) if error.lost_reason() == Some(LostReason::Expired) => return Ok(Outcome::Again),
                Err(error) => return Err(error),
            }
        };
        // A raw value that does not fit a token is an error at admission, never cut.
        Token::new(0, node.state().sequence())?;
        if let Some(length) = request.max_hold {
            node.state().end_at(from + length);
        }
        match node.state().lost() {
            None => Ok(Outcome::Admitted(node)),
            // The reply came too late to leave any time (RULES A3): not a hold, again.
            Some(LostReason::Expired) => Ok(Outcome::Again),
            Some(reason) => Err(Error::lost(reason)),
        }
    }

    /// Joins, and joins again under the same id while the outcome is unknown or the server unreachable.
    async fn join(&mut self, give_up: Moment) -> Result<Progress> {
        let mut pauses = retries();
        loop {
            self.left = Left::Unknown;
            let sent = self.clock.now();
            let error = match self.backend.join(&self.join).await {
                Ok(Joined::Refused) => {
                    self.left = Left::Nothing;
                    return Ok(Progress::Refused);
                }
                Ok(Joined::Admitted(node)) => {
                    self.left = Left::Node(node);
                    return Ok(Progress::Node { sent, admitted: true });
                }
                Ok(Joined::Waiting(node)) => {
                    self.obstacle.overcome();
                    self.left = Left::Node(node);
                    return Ok(Progress::Node { sent, admitted: false });
                }
                Err(error) => error,
            };
            self.obstacle.met(&error);
            match error.kind() {
                ErrorKind::Unknown => self.join.repeated = true,
                // Surely not sent; but what an earlier request left is still unknown.
                ErrorKind::Unavailable => {}
                ErrorKind::Lost { reason: LostReason::Expired } => return Ok(Progress::Again),
                _ => {
                    if !self.join.repeated {
                        self.left = Left::Nothing;
                    }
                    return Err(error);
                }
            }
            if !self.join.repeated {
                self.left = Left::Nothing;
            }
            // A try answers within the request timeout; and nobody waits for a dead server for ever.
            if self.join.patience == Patience::Try || self.clock.now() >= give_up {
                return Err(
                    Error::new(ErrorKind::Unavailable, "the coordinator cannot serve it now").because(error)
                );
            }
            if self.backend.lease().state() == LeaseState::Lost(LostReason::Closed) {
                return Err(Error::closed());
            }
            pauses.pause(self.clock).await;
        }
    }

    fn node(&self) -> Arc<dyn Node> {
        match &self.left {
            Left::Node(node) => Arc::clone(node),
            _ => unreachable!("asked only after a join that made a node"),
        }
    }

    /// The node is somebody's now.
    fn keep(mut self) {
        self.left = Left::Nothing;
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.left, Left::Nothing) {
            Left::Nothing => {}
            Left::Node(node) => self.departures.push(Departure::Leave(self.join.queue.clone(), node)),
            Left::Unknown => {
                // A request in flight may land a request timeout from now, or a TTL where that is longer; its node then
                // lives a TTL.
                let ttl = self.backend.lease().ttl();
                let moot = self.clock.now() + self.request_timeout.max(ttl) + ttl;
                self.departures.push(Departure::Abandon(self.join.clone(), moot));
            }
        }
    }
}
