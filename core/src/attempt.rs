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
use crate::contracts::{AskedLimit, Backend, Join, Joined, LeaseState, Node, NodeId, Patience};
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
    pub(crate) limit: AskedLimit,
    pub(crate) label: Arc<str>,
    pub(crate) patience: Patience,
    /// The total deadline (for a try: of its answer); `Moment::NEVER` for none.
    pub(crate) deadline: Moment,
    /// The bound of one request.
    pub(crate) request_timeout: Duration,
    /// Whether it gives up as soon as the coordinator does not answer.
    pub(crate) fail_fast: bool,
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

/// How much longer than its last request an acquisition waits to hear where and why that failed.
const LAST_WORD: Duration = Duration::from_millis(50);

/// Acquires: `None` for a try that was refused.
pub(crate) async fn acquire(
    backend: &Arc<dyn Backend>,
    departures: &Departures,
    request: &Request,
) -> Result<Option<Admitted>> {
    let clock = backend.lease().clock().clone();
    let started = clock.now();
    let obstacle = Obstacle::default();
    let all = acquire_now(backend, departures, request, &clock, &obstacle);
    // A try's only request has the time that the try has, and began a little later: what became of it is the better word.
    let last_word = if request.patience == Patience::Try { LAST_WORD } else { Duration::ZERO };
    let answer = tokio::select! {
        biased;
        error = unanswered(backend, request.fail_fast) => Err(error),
        answer = all => answer,
        () = clock.sleep_until(request.deadline + last_word) => Err(late(request.patience, obstacle.why())),
    };
    let node = answer.map_err(|error| {
        let closed = error.lost_reason() == Some(LostReason::Closed);
        // To who waits, the lease's end by a close is the close.
        if closed { Error::closed() } else { error }.on(request.queue.name())
    })?;
    Ok(node.map(|node| Admitted { node, waited: clock.now().since(started) }))
}

/// Waits until the coordinator does not answer, for one that would fail then rather than wait. (The stand-in for the lease of one
/// that connects lazily says nothing yet.)
pub(crate) async fn unanswered(backend: &Arc<dyn Backend>, fail_fast: bool) -> Error {
    let lease = backend.lease();
    if !fail_fast || lease.deadline() == Moment::NEVER {
        return std::future::pending().await;
    }
    let mut state = lease.state();
    while state != LeaseState::Suspended {
        state = lease.changed(state).await;
    }
    Error::new(ErrorKind::Unavailable, "not waited for, as asked").because(silence())
}

fn silence() -> Error {
    Error::new(ErrorKind::Unavailable, "the coordinator has not answered")
}

/// What a passed deadline means. `Timeout` says that others hold, which needs an answer; a try waits for nothing but an answer.
pub(crate) fn late(patience: Patience, unanswered: Option<Error>) -> Error {
    let taken_back = "its place in the queue is being given back";
    match (patience, unanswered) {
        (Patience::Wait, None) => {
            Error::new(ErrorKind::Timeout, format!("not acquired in time; {taken_back}"))
        }
        (Patience::Wait, Some(why)) => {
            Error::new(ErrorKind::Unavailable, format!("not acquired before the deadline; {taken_back}"))
                .because(why)
        }
        (Patience::Try, why) => Error::new(ErrorKind::Unavailable, "no answer within the request timeout")
            .because(why.unwrap_or_else(silence)),
    }
}

/// As [`unanswered`], of a node in the queue: each may have a lease of its own.
async fn until_unproven(node: &dyn Node, fail_fast: bool) -> Error {
    if !fail_fast {
        return std::future::pending().await;
    }
    let mut state = node.state().state();
    loop {
        match unproven(state) {
            Some(why) if state == LeaseState::Suspended => return why,
            // The end of its lease, or of the node, ends its wait.
            _ => state = node.state().changed(state).await,
        }
    }
}

/// Why one that waits behind others has no answer, if so: its lease was not proven within its period.
pub(crate) fn unproven(state: LeaseState) -> Option<Error> {
    match state {
        LeaseState::Live => None,
        LeaseState::Suspended => {
            let why = "the coordinator has not answered within its period; others held when it did";
            Some(Error::new(ErrorKind::Unavailable, why))
        }
        LeaseState::Lost(reason) => Some(Error::lost(reason)),
    }
}

/// What kept an acquisition up to now: who reads that its deadline passed has to know whether others held all the time, or
/// nobody answered.
#[derive(Debug, Default)]
struct Obstacle(Mutex<Kept>);

#[derive(Debug, Default)]
enum Kept {
    /// Nothing has been answered yet.
    #[default]
    Silence,
    Error(Error),
    /// Others are before this node.
    Others(Arc<dyn Node>),
}

impl Obstacle {
    fn asks(&self) {
        let mut kept = self.0.lock();
        if matches!(*kept, Kept::Others(_)) {
            *kept = Kept::Silence;
        }
    }

    fn met(&self, error: &Error) {
        *self.0.lock() = Kept::Error(error.clone());
    }

    /// It stands in the queue.
    fn waits(&self, node: &Arc<dyn Node>) {
        *self.0.lock() = Kept::Others(Arc::clone(node));
    }

    fn why(&self) -> Option<Error> {
        match std::mem::take(&mut *self.0.lock()) {
            Kept::Silence => Some(silence()),
            Kept::Error(error) => Some(error),
            Kept::Others(node) => unproven(node.state().state()),
        }
    }

    fn explain(&self, error: Error) -> Error {
        match self.why() {
            Some(why) => error.because(why),
            None => error,
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
        // Whatever has passed, it has the time of one request, and hears what became of it.
        let last = clock.now() + request.request_timeout + LAST_WORD;
        match attempt.run(request, give_up.max(last)).await? {
            Outcome::Refused => return Ok(None),
            Outcome::Admitted(node) => {
                attempt.keep();
                return Ok(Some(node));
            }
            Outcome::Again { heard: Some(until) } => give_up = give_up.max(until),
            Outcome::Again { heard: None } if clock.now() >= give_up => {
                return Err(obstacle.explain(silent()));
            }
            Outcome::Again { heard: None } => {}
        }
        drop(attempt);
        if request.patience == Patience::Try {
            // What the attempt has left must not be what refuses the next: a try does not wait in the queue.
            departures.settled(&request.queue).await;
        }
        clock.sleep_until(clock.now() + pause).await;
        pause = pauses.next();
    }
}

fn silent() -> Error {
    Error::new(ErrorKind::Unavailable, "the coordinator cannot serve it now")
}

fn retries() -> Pauses {
    Pauses::new(Duration::from_millis(10), Duration::from_millis(500))
}

/// Whether who loses its place so joins anew by itself: nobody wanted it out of the queue.
fn joins_anew(reason: LostReason) -> bool {
    matches!(reason, LostReason::Expired | LostReason::Forgotten)
}

/// What became of an attempt.
enum Outcome {
    Refused,
    /// The lease was lost under it: a new attempt is due. `heard`: a TTL after the server last answered, where it has since this began.
    Again {
        heard: Option<Moment>,
    },
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
    fail_fast: bool,
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
        let Request { request_timeout, fail_fast, .. } = *request;
        Self { backend, departures, clock, obstacle, request_timeout, fail_fast, join, left: Left::Nothing }
    }

    /// Joins and waits, until it is over. What it admits is the caller's to [`keep`](Attempt::keep).
    async fn run(&mut self, request: &Request, give_up: Moment) -> Result<Outcome> {
        let (sent, admitted) = match self.join(give_up).await? {
            Progress::Refused => return Ok(Outcome::Refused),
            Progress::Again => return Ok(Outcome::Again { heard: None }),
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
            let admitted = tokio::select! {
                biased;
                admitted = node.admitted() => admitted,
                why = until_unproven(&*node, request.fail_fast) => {
                    return Err(Error::new(ErrorKind::Unavailable, "not waited for, as asked").because(why));
                }
            };
            match admitted {
                Ok(()) => self.clock.now(),
                // Our lease ran out while we waited, so the place in the queue is lost: again,
                // at the tail, under a new lease (RULES A15).
                // So is that in a server that has forgotten us.
                Err(error) if error.lost_reason().is_some_and(joins_anew) => {
                    self.obstacle.met(&error);
                    let lease = node.state().lease();
                    return Ok(Outcome::Again { heard: Some(lease.deadline() + lease.margin()) });
                }
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
            Some(reason) if joins_anew(reason) => {
                let heard = Some(self.clock.now() + node.state().lease().ttl());
                Ok(Outcome::Again { heard })
            }
            Some(reason) => Err(Error::lost(reason)),
        }
    }

    /// Joins, until it gives up on a server that does not answer.
    async fn join(&mut self, give_up: Moment) -> Result<Progress> {
        let (clock, obstacle) = (self.clock, self.obstacle);
        tokio::select! {
            biased;
            progress = self.join_until_answered() => progress,
            () = clock.sleep_until(give_up) => Err(obstacle.explain(silent())),
        }
    }

    /// Joins, and joins again under the same id while the outcome is unknown or the server unreachable.
    async fn join_until_answered(&mut self) -> Result<Progress> {
        let mut pauses = retries();
        self.obstacle.asks();
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
                    self.obstacle.waits(&node);
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
                ErrorKind::Lost { reason } if joins_anew(*reason) => return Ok(Progress::Again),
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
            // A try answers within the request timeout.
            if self.join.patience == Patience::Try || self.fail_fast {
                return Err(silent().because(error));
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
            Left::Node(node) => {
                let queue = self.join.queue.clone();
                self.departures.push(Departure::Leave { queue, node, asked: false });
            }
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
