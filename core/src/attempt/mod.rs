//! One acquisition: its attempts (each a join, its retries under one id, and the wait), and the
//! clean-up of those that are dropped.
//!
//! An attempt has one random id, and every request of it carries the id, so the server makes at
//! most one node (NODE-IDEMPOTENT). Whatever ends the future (an error, a deadline, a drop at any
//! await) drops the [`Attempt`], which hands what may be left on the server to the
//! [`Cleanup`](crate::cleanup::Cleanup). [`life`](crate::decide::life) decides what follows each
//! answer and what may be left; see `docs/protocol/cleanup.md`.

mod obstacle;
mod request;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use self::obstacle::{Obstacle, silent, until_unproven};
pub(crate) use self::obstacle::{late, unanswered, unproven};
pub(crate) use self::request::{OnQueue, Request};
use crate::cleanup::{LateJoin, Task};
use crate::client::Client;
use crate::clock::{Clock, Moment};
use crate::contracts::{Join, Joined, LeaseState, Node, Patience};
use crate::decide::join_obsolete_at;
use crate::decide::life::{Advance, Joining, Residue};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::support::{Backoff, Pauses};

/// An admitted node. The caller makes a hold of it without an await in between, so that no drop can
/// lose it.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) waited: Duration,
}

/// How much longer than its last request an acquisition waits, to hear where and why that failed.
const LAST_WORD: Duration = Duration::from_millis(50);

/// For which share of the request timeout the clean-up awaits the join of a dropped try.
const LATE_SHARE: u32 = 4;

/// Acquires before the deadline, as long as the client's runtime lives; `None` for a refused try.
pub(crate) async fn acquire(client: &Client, request: &Request) -> Result<Option<Admitted>> {
    let clock = client.clock();
    let started = clock.now();
    let (home, obstacle) = (&client.cleanup.home, Obstacle::default());
    // A try has one request, which began a little later and has the same time: its outcome says
    // more than our deadline.
    let last_word = if request.patience == Patience::Try { LAST_WORD } else { Duration::ZERO };
    home.begins().await.map_err(|error| error.on(request.queue.name()))?;
    let answer = tokio::select! {
        biased;
        error = unanswered(&client.backend, request.fail_fast) => Err(error),
        answer = attempts(client, request, &clock, &obstacle) => answer,
        () = clock.sleep_until(request.deadline + last_word) => Err(late(request.patience, obstacle.why())),
        error = home.gone() => Err(error),
    };
    let node = answer.map_err(|error| {
        // To a waiter, a lease that a close has ended means the close.
        let is_closed = error.lost_reason() == Some(LostReason::Closed);
        let error = if is_closed { Error::closed() } else { error };
        home.explain(error).on(request.queue.name())
    })?;
    Ok(node.map(|node| Admitted { node, waited: clock.now().since(started) }))
}

/// One attempt after the other, until one is admitted or refused.
async fn attempts(
    client: &Client,
    request: &Request,
    clock: &Clock,
    obstacle: &Obstacle,
) -> Result<Option<Arc<dyn Node>>> {
    let lease = client.lease();
    if client.live.is_closing() || lease.state() == LeaseState::Lost(LostReason::Closed) {
        return Err(Error::closed());
    }
    let mut give_up = request.give_up(clock.now(), lease.ttl());
    // If the clean-up has no answer by then, the join goes ahead, and stands behind the old node.
    tokio::select! {
        biased;
        () = client.cleanup.settled(&request.queue) => {}
        () = clock.sleep_until(give_up) => {}
    }
    // The first new attempt starts at once. Several in a row mean that no lease lasts, so they are
    // paced.
    let (mut delay, mut backoff) = (Duration::ZERO, Backoff::new(Pauses::OUTAGE));
    loop {
        let mut attempt = Attempt::new(client, request, clock, obstacle);
        // However late it begins, an attempt has the time of one request, and hears its outcome.
        let last = clock.now() + request.request_timeout + LAST_WORD;
        match attempt.run(give_up.max(last)).await? {
            Attempted::Refused => return Ok(None),
            Attempted::Admitted(node) => {
                attempt.joining.keep();
                return Ok(Some(node));
            }
            Attempted::Again { heard: Some(until) } => give_up = give_up.max(until),
            Attempted::Again { heard: None } if clock.now() >= give_up => {
                return Err(obstacle.explain(silent()));
            }
            Attempted::Again { heard: None } => {}
        }
        drop(attempt);
        if request.patience == Patience::Try {
            // A try does not queue, so the last attempt's node must not be what refuses the next.
            client.cleanup.settled(&request.queue).await;
        }
        clock.sleep_until(clock.now() + delay).await;
        delay = backoff.next();
    }
}

/// What became of an attempt.
enum Attempted {
    Refused,
    /// The lease was lost during the attempt, and a new attempt is due. `heard` is a TTL after the
    /// server's last answer, if it has answered since this attempt began.
    Again {
        heard: Option<Moment>,
    },
    Admitted(Arc<dyn Node>),
}

/// An attempt under way. Dropping it cleans up what it may have left.
struct Attempt<'a> {
    client: &'a Client,
    request: &'a Request,
    clock: &'a Clock,
    obstacle: &'a Obstacle,
    join: Join,
    joining: Joining,
    // The join of a try, while it has no answer.
    asked: Mutex<Option<BoxFuture<'static, Result<Joined>>>>,
    // Set once a join has made it.
    node: Option<Arc<dyn Node>>,
}

impl<'a> Attempt<'a> {
    fn new(client: &'a Client, request: &'a Request, clock: &'a Clock, obstacle: &'a Obstacle) -> Self {
        let (join, joining) = (request.join(), Joining::new());
        Self { client, request, clock, obstacle, join, joining, asked: Mutex::default(), node: None }
    }

    /// Joins and waits until the attempt is over. The caller keeps what it admits
    /// ([`Joining::keep`]).
    async fn run(&mut self, give_up: Moment) -> Result<Attempted> {
        let (clock, obstacle) = (self.clock, self.obstacle);
        let (sent, advance) = tokio::select! {
            biased;
            joined = self.join_until_answered() => joined?,
            () = clock.sleep_until(give_up) => return Err(obstacle.explain(silent())),
        };
        // It is connected now, if it was not before.
        self.client.check_confirms(self.request.min_replicas)?;
        let node = match (advance, &self.node) {
            (Advance::Refused, _) => return Ok(Attempted::Refused),
            (_, Some(node)) => Arc::clone(node),
            (_, None) => return Ok(Attempted::Again { heard: None }),
        };
        let state = node.state();
        let from = if advance == Advance::Hold {
            // The hold does not include the time before the lease or connection was open.
            sent.max(state.lease().opened())
        } else {
            if let Some(on_queue) = &self.request.on_queue {
                on_queue.notify();
            }
            let admitted = tokio::select! {
                biased;
                admitted = node.admitted() => admitted,
                why = until_unproven(&*node, self.request.fail_fast) => {
                    return Err(Error::new(ErrorKind::Unavailable, "not waited for, as fail_fast asks").because(why));
                }
            };
            if let Err(error) = admitted {
                return self.wait_failed(&*node, error);
            }
            self.clock.now()
        };
        if let Err(error) = self.confirmed(&*node).await {
            return self.wait_failed(&*node, error);
        }
        // A raw value that does not fit a token is an error at admission; it is never truncated.
        state.admitted_as(self.client.tokens.of(state.sequence())?);
        match state.change(|life, seen| life.hold(from, self.request.max_hold, seen)) {
            Ok(()) => Ok(Attempted::Admitted(node)),
            // The reply came too late to leave any time: no hold (LEASE-DEADLINE-FROM-SEND).
            Err((_, Advance::JoinAnew)) => {
                Ok(Attempted::Again { heard: Some(self.clock.now() + state.lease().ttl()) })
            }
            Err((reason, _)) => Err(Error::lost(reason)),
        }
    }

    /// Our lease ran out while we waited, or the server has forgotten us, and the place in the queue
    /// is lost: join again, at the tail, under a new lease (QUEUE-PAUSED-WAITER-LOSES-PLACE). Any
    /// other error is the answer.
    fn wait_failed(&self, node: &dyn Node, error: Error) -> Result<Attempted> {
        let state = node.state();
        if state.look(|life| life.wait_failed((&error).into())) != Advance::JoinAnew {
            return Err(error);
        }
        self.obstacle.met(&error);
        let lease = state.lease();
        Ok(Attempted::Again { heard: Some(lease.deadline() + lease.margin()) })
    }

    /// Waits until as many replicas as the request asks for have confirmed the admission. Without
    /// that there is no hold, and the attempt is cleaned up like any other.
    async fn confirmed(&self, node: &dyn Node) -> Result<()> {
        let Request { min_replicas, deadline, request_timeout, .. } = *self.request;
        let min_replicas = self.client.confirmed_by(min_replicas);
        if min_replicas == 0 {
            return Ok(());
        }
        self.obstacle.confirms(min_replicas);
        // A little earlier than the deadline: the answer says how many have confirmed.
        let left = deadline.since(self.clock.now());
        let within = (left - LAST_WORD.min(left / 2)).min(request_timeout);
        node.confirm(min_replicas, within).await
    }

    /// Joins, and joins again under the same id while the outcome is unknown or the server
    /// unreachable. Answers when the last join was sent, and what comes next.
    async fn join_until_answered(&mut self) -> Result<(Moment, Advance)> {
        let mut backoff = Backoff::new(Pauses::OUTAGE);
        self.obstacle.asks();
        loop {
            self.join.repeated = self.joining.sent();
            let sent = self.clock.now();
            let answer = match self.request.patience {
                Patience::Wait => self.client.backend.join(&self.join).await,
                Patience::Try => self.outliving_join().await,
            };
            let error = match answer {
                Ok(Joined::Refused) => return Ok((sent, self.joining.refused())),
                Ok(Joined::Admitted(node)) => {
                    self.node = Some(node);
                    return Ok((sent, self.joining.joined(true)));
                }
                Ok(Joined::Waiting(node)) => {
                    self.obstacle.waits(&node);
                    self.node = Some(node);
                    return Ok((sent, self.joining.joined(false)));
                }
                Err(error) => error,
            };
            self.obstacle.met(&error);
            match self.joining.failed((&error).into()) {
                // A try answers within the request timeout.
                Advance::JoinAgain if self.request.patience == Patience::Try || self.request.fail_fast => {
                    return Err(silent().because(error));
                }
                Advance::JoinAgain => {}
                Advance::JoinAnew => return Ok((sent, Advance::JoinAnew)),
                _ => return Err(error),
            }
            if self.client.lease().state() == LeaseState::Lost(LostReason::Closed) {
                return Err(Error::closed());
            }
            backoff.wait(self.clock).await;
        }
    }

    /// Sends the join of a try, which outlives the attempt: see [`LateJoin`].
    async fn outliving_join(&mut self) -> Result<Joined> {
        let (backend, join) = (Arc::clone(&self.client.backend), self.join.clone());
        let asked = self.asked.get_mut();
        let join = Box::pin(async move { backend.join(&join).await });
        let answer = asked.insert(self.client.cleanup.at_home(join)).await;
        *asked = None;
        answer
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let cleanup = &self.client.cleanup;
        match (self.joining.give_up(), &self.node) {
            (Residue::Nothing, _) => {}
            (Residue::Node, Some(node)) => cleanup.push(Task::leave(&self.join.queue, node)),
            (Residue::Node | Residue::Unknown, _) => {
                let (now, ttl) = (self.clock.now(), self.client.lease().ttl());
                let obsolete_at = join_obsolete_at(now, self.request.request_timeout, ttl);
                let join = self.join.clone();
                cleanup.push(match self.asked.get_mut().take() {
                    // A join that waits in the client for its turn keeps that from others while nobody
                    // polls it: it is dropped where it would not be awaited at once.
                    Some(asked) if cleanup.has_room() => {
                        let until = now + self.request.request_timeout / LATE_SHARE;
                        Task::Late(LateJoin::new(asked, join, self.clock.clone(), until, obsolete_at))
                    }
                    _ => Task::Abandon { join, obsolete_at },
                });
            }
        }
    }
}
