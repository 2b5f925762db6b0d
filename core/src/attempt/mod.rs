//! One acquisition. An attempt is a join, its retries with the same id (NODE-IDEMPOTENT), and the wait. A
//! dropped [`Attempt`] gives a node that may remain to the [`Cleanup`](crate::cleanup::Cleanup). See
//! `docs/protocol/cleanup.md`.

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

/// No await is allowed between this and the hold: a drop there would lose the node.
#[derive(Debug)]
pub(crate) struct Admitted {
    pub(crate) node: Arc<dyn Node>,
    pub(crate) waited: Duration,
}

/// How much longer than its last request an acquisition waits, for that request's error.
const LAST_WORD: Duration = Duration::from_millis(50);

/// The share of the request timeout for which the clean-up awaits the join of a dropped try.
const LATE_SHARE: u32 = 4;

/// `None` for a refused try.
pub(crate) async fn acquire(client: &Client, request: &Request) -> Result<Option<Admitted>> {
    let clock = client.clock();
    let started = clock.now();
    let (home, obstacle) = (&client.cleanup.home, Obstacle::default());
    // The request of a try started a little later. Its error says more than the deadline's.
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
        let is_closed = error.lost_reason() == Some(LostReason::Closed);
        let error = if is_closed { Error::closed() } else { error };
        home.explain(error).on(request.queue.name())
    })?;
    Ok(node.map(|node| Admitted { node, waited: clock.now().since(started) }))
}

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
    // If the clean-up is slower, the join waits for the old node.
    tokio::select! {
        biased;
        () = client.cleanup.settled(&request.queue) => {}
        () = clock.sleep_until(give_up) => {}
    }
    // Several new attempts in a row mean that no lease lasts.
    let (mut delay, mut backoff) = (Duration::ZERO, Backoff::new(Pauses::OUTAGE));
    loop {
        let mut attempt = Attempt::new(client, request, clock, obstacle);
        // A late attempt still has the time of one request.
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
            // A try does not queue, so the node of the last attempt must not refuse the next one.
            client.cleanup.settled(&request.queue).await;
        }
        clock.sleep_until(clock.now() + delay).await;
        delay = backoff.next();
    }
}

enum Attempted {
    Refused,
    /// The lease was lost. `heard` is a TTL after the server's last answer, if it has answered since this
    /// attempt began.
    Again {
        heard: Option<Moment>,
    },
    Admitted(Arc<dyn Node>),
}

struct Attempt<'a> {
    client: &'a Client,
    request: &'a Request,
    clock: &'a Clock,
    obstacle: &'a Obstacle,
    join: Join,
    joining: Joining,
    // The join of a try, while it has no answer.
    asked: Mutex<Option<BoxFuture<'static, Result<Joined>>>>,
    node: Option<Arc<dyn Node>>,
}

impl<'a> Attempt<'a> {
    fn new(client: &'a Client, request: &'a Request, clock: &'a Clock, obstacle: &'a Obstacle) -> Self {
        let (join, joining) = (request.join(), Joining::new());
        Self { client, request, clock, obstacle, join, joining, asked: Mutex::default(), node: None }
    }

    /// The caller must keep an admitted node ([`Joining::keep`]).
    async fn run(&mut self, give_up: Moment) -> Result<Attempted> {
        let (clock, obstacle) = (self.clock, self.obstacle);
        let (sent, advance) = tokio::select! {
            biased;
            joined = self.join_until_answered() => joined?,
            () = clock.sleep_until(give_up) => return Err(obstacle.explain(silent())),
        };
        // A lazy client has connected by now.
        self.client.check_confirms(self.request.min_replicas)?;
        let node = match (advance, &self.node) {
            (Advance::Refused, _) => return Ok(Attempted::Refused),
            (_, Some(node)) => Arc::clone(node),
            (_, None) => return Ok(Attempted::Again { heard: None }),
        };
        let state = node.state();
        let from = if advance == Advance::Hold {
            // The hold starts after the lease or connection was opened.
            sent.max(state.lease().opened())
        } else {
            if let Some(on_queue) = &self.request.on_queue {
                on_queue.notify();
            }
            let admitted = tokio::select! {
                biased;
                admitted = node.admitted() => admitted,
                why = until_unproven(&*node, self.request.fail_fast) => {
                    return Err(Error::new(ErrorKind::Unavailable, "gave up at once: fail_fast is set").because(why));
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
        state.admitted_as(self.client.tokens.of(state.sequence())?);
        match state.change(|life, seen| life.hold(from, self.request.max_hold, seen)) {
            Ok(()) => Ok(Attempted::Admitted(node)),
            // LEASE-DEADLINE-FROM-SEND.
            Err((_, Advance::JoinAnew)) => {
                Ok(Attempted::Again { heard: Some(self.clock.now() + state.lease().ttl()) })
            }
            Err((reason, _)) => Err(Error::lost(reason)),
        }
    }

    /// QUEUE-PAUSED-WAITER-LOSES-PLACE: after an expiry, or if the server forgot the node, the waiter joins
    /// again.
    fn wait_failed(&self, node: &dyn Node, error: Error) -> Result<Attempted> {
        let state = node.state();
        if state.look(|life| life.wait_failed((&error).into())) != Advance::JoinAnew {
            return Err(error);
        }
        self.obstacle.met(&error);
        let lease = state.lease();
        Ok(Attempted::Again { heard: Some(lease.deadline() + lease.margin()) })
    }

    async fn confirmed(&self, node: &dyn Node) -> Result<()> {
        let Request { min_replicas, deadline, request_timeout, .. } = *self.request;
        let min_replicas = self.client.confirmed_by(min_replicas);
        if min_replicas == 0 {
            return Ok(());
        }
        self.obstacle.confirms(min_replicas);
        // Ends a little before the deadline: the answer says how many replicas have confirmed.
        let left = deadline.since(self.clock.now());
        let within = (left - LAST_WORD.min(left / 2)).min(request_timeout);
        node.confirm(min_replicas, within).await
    }

    /// Returns the send time of the last join.
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

    /// The join continues after a drop of the attempt: see [`LateJoin`].
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
                    // A join that waits for its turn in the client blocks later requests while it is not
                    // polled.
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
