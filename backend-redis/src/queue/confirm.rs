//! Confirmation by replicas (NODE-CONFIRM): a node counts as acquired once so many replicas have
//! it.
//!
//! ```text
//!  the client        shared connection: JOIN, or the hand-off's message       own connection
//!     |------------------ JOIN ---------------->|                                   |
//!     |<----------------- admitted -------------|                                   |
//!     |------------------ RENEW node, WAIT n ms ----------------------------------->|
//!     |<----------------- held; k replicas have it ---------------------------------|
//! ```
//!
//! *Protocol.* A connection of its own renews the admitted node, and behind that, in the same burst,
//! asks `WAIT`. One task does so for all acquisitions of a client, in rounds: their nodes are
//! renewed together, and one `WAIT` asks for all of them.
//!
//! *Why it is safe.* `WAIT` counts the replicas that have what its *own* connection wrote
//! (QUEUE-CONFIRM-COVERS-ADMISSION). What admitted the node was written on another: by the script of
//! a client that left, or by this client's join. On the shared connection, where the winner of a
//! hand-off has written nothing since, `WAIT` answers "all" at once, however far the replicas are
//! behind. The renewal is a write behind the admission in the one order that the replicas follow, so
//! a replica that has the renewal has the admission; and its answer says that the node still stands,
//! admitted, on the server that is asked. An uncontended join takes the same way, rather than being
//! sent on this connection: it never queues behind a `WAIT`, and has one outcome to find out.
//! - The renewal moves the node's deadline as any renewal does, from its own send; `WAIT` moves none.
//! - A replica refuses the renewal, and `WAIT`. A connection that leads to another run of the server
//!   than the client's own is given up: two masters may each have replicas.
//! - `WAIT` blocks its connection, and so never runs on the shared one, where renewals would wait
//!   behind it (QUEUE-CONFIRM-APART).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use latchwork_core::contracts::NodeWriter;
use latchwork_core::support::{Backoff, SingleFlight};
use latchwork_core::{Error, ErrorKind, Moment, Result};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::client::Client;
use crate::config::Settings;
use crate::driver::{Burst, ConfirmingConnection};
use crate::renewal;
use crate::scripts::{self, Call, RenewAnswer, Reply};
use crate::watch::Attempt;

/// What is left of a confirmation's time for its last answer, at most.
const LAST_WORD: Duration = Duration::from_millis(50);
/// The longest single `WAIT`: an acquisition that comes meanwhile is asked for behind it.
const ROUND: Duration = Duration::from_millis(100);
/// The shortest and the longest pause after a failed round, without jitter.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));

const GIVEN_BACK: &str = "it is being given back";

/// The acquisitions of a client that replicas are to confirm, and the connection for that.
pub(crate) struct Confirmations {
    settings: Settings,
    asked: Mutex<Vec<Ask>>,
    // While no round is under way.
    connection: Mutex<Option<ConfirmingConnection>>,
    rounds: SingleFlight<()>,
}

impl Confirmations {
    pub(crate) fn new(settings: Settings) -> Self {
        let (asked, connection, rounds) = (Mutex::default(), Mutex::default(), SingleFlight::default());
        Self { settings, asked, connection, rounds }
    }

    /// Disconnects. A round that is under way ends by itself when the client closes.
    pub(super) fn close(&self) {
        drop(self.connection.lock().take());
    }
}

impl fmt::Debug for Confirmations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Confirmations").field("asked", &self.asked.lock().len()).finish_non_exhaustive()
    }
}

/// One acquisition that asks.
struct Ask {
    attempt: Arc<Attempt>,
    replicas: u32,
    began: Moment,
    until: Moment,
    // The present connection has renewed its node, as an admitted one.
    written: bool,
    answer: oneshot::Sender<Result<()>>,
}

impl Ask {
    fn state(&self) -> Option<&NodeWriter> {
        self.attempt.state().filter(|state| state.lost().is_none())
    }

    fn renewal(&self, ttl: Duration) -> Option<Call> {
        let node = (self.attempt.id, self.state()?.sequence());
        Some(scripts::renew([(&self.attempt.queue, vec![node])], ttl, None))
    }

    fn is_over(&self, now: Moment) -> bool {
        self.until <= now
    }

    fn answer(self, answer: Result<()>) {
        // Its acquisition may have been dropped.
        let _ = self.answer.send(answer);
    }
}

/// Waits until this many replicas have an admitted node.
///
/// # Cancel safety
/// Cancel-safe: the next round leaves it out.
pub(super) async fn confirm(
    client: &Arc<Client>,
    attempt: &Arc<Attempt>,
    replicas: u32,
    within: Duration,
) -> Result<()> {
    let began = client.clock.now();
    let until = began + (within - LAST_WORD.min(within / 2));
    let (answer, mut answered) = oneshot::channel();
    let attempt = Arc::clone(attempt);
    let lost = async {
        match attempt.state() {
            Some(state) => state.until_lost().await,
            None => std::future::pending().await,
        }
    };
    let ask = Ask { attempt: Arc::clone(&attempt), replicas, began, until, written: false, answer };
    client.confirmations.asked.lock().push(ask);
    let answered = async {
        loop {
            let rounds = client.confirmations.rounds.run(&client.runtime, || rounds(Arc::clone(client)));
            tokio::select! {
                biased;
                answer = &mut answered => return answer.unwrap_or_else(|_| Err(died())),
                // They may have ended just before they saw this one.
                _ = rounds.wait() => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = client.closing.cancelled() => Err(Error::closed()),
        answer = answered => answer,
        reason = lost => Err(Error::lost(reason)),
        () = client.clock.sleep_until(began + within) => Err(unknown(replicas, within, None)),
    }
}

/// The task: rounds until nothing is asked any more, or the client closes.
async fn rounds(client: Arc<Client>) {
    let closing = client.closing.clone();
    closing.run_until_cancelled(answer_all(&client)).await;
}

async fn answer_all(client: &Arc<Client>) {
    let confirmations = &client.confirmations;
    let mut connection = confirmations.connection.lock().take();
    let (mut asks, mut pauses) = (Vec::new(), Backoff::new(PAUSES.0, PAUSES.1));
    loop {
        asks.append(&mut confirmations.asked.lock());
        asks.retain(|ask: &Ask| !ask.answer.is_closed());
        if asks.is_empty() {
            break;
        }
        let answer = round(client, &mut connection, &mut asks).await;
        let now = client.clock.now();
        match answer {
            Ok(()) if asks.iter().all(|ask| ask.written) => {
                pauses.reset();
                continue;
            }
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(%error, "no confirmation by replicas");
                connection = None;
                for ask in asks.extract_if(.., |ask| ask.is_over(now) || !error.is_retryable()) {
                    let answer = match error.is_retryable() {
                        true => unknown(ask.replicas, now.since(ask.began), Some(error.clone())),
                        false => error.clone(),
                    };
                    ask.answer(Err(answer));
                }
            }
        }
        let soonest = asks.iter().map(|ask| ask.until).min().unwrap_or(now);
        client.clock.sleep_until(soonest.min(now + pauses.next())).await;
    }
    let mut kept = confirmations.connection.lock();
    // A close looks for it after this was cancelled.
    if !client.closing.is_cancelled() {
        *kept = connection;
    }
}

/// Renews what is new on the connection, and asks for all. What is answered is taken out.
async fn round(
    client: &Arc<Client>,
    connection: &mut Option<ConfirmingConnection>,
    asks: &mut Vec<Ask>,
) -> Result<()> {
    // If the connection has fallen silent, half of the time is left for another one.
    let bound = client.renewal_bound().min(client.request_timeout / 2);
    let connection = match connection.take().filter(|last| client.driver.leads_to(last.run_id())) {
        Some(last) => connection.insert(last),
        None => {
            asks.iter_mut().for_each(|ask| ask.written = false);
            connection.insert(dial(client, bound).await?)
        }
    };
    let (now, mut new, mut calls) = (client.clock.now(), Vec::new(), Vec::new());
    for (place, ask) in asks.iter().enumerate().filter(|(_, ask)| !ask.written) {
        if let Some(call) = ask.renewal(client.ttl) {
            new.push(place);
            calls.push(call);
        }
    }
    let time = asks.iter().map(|ask| ask.until.since(now)).min().unwrap_or_default();
    let replicas = asks.iter().map(|ask| ask.replicas).min().unwrap_or_default();
    let Burst { sent, replies, replicas } =
        connection.write_and_wait(&calls, replicas, time.min(ROUND), bound).await?;
    let mut refused = Vec::new();
    for (&place, reply) in new.iter().zip(replies) {
        let ask = &mut asks[place];
        match reply.and_then(|reply| renewed(client, &ask.attempt, sent, reply)) {
            Ok(held) => ask.written = held,
            Err(error) if error.is_retryable() => return Err(error),
            Err(error) => refused.push((place, error)),
        }
    }
    for (place, error) in refused.into_iter().rev() {
        asks.remove(place).answer(Err(error));
    }
    let now = client.clock.now();
    let confirmed = |ask: &Ask| ask.written && u64::from(ask.replicas) <= replicas;
    for ask in asks.extract_if(.., |ask| confirmed(ask) || ask.is_over(now)) {
        let answer = match (confirmed(&ask), ask.written) {
            (true, _) => Ok(()),
            (_, true) => Err(fewer(replicas, ask.replicas, now.since(ask.began))),
            (_, false) => Err(unknown(ask.replicas, now.since(ask.began), None)),
        };
        ask.answer(answer);
    }
    Ok(())
}

async fn dial(client: &Client, bound: Duration) -> Result<ConfirmingConnection> {
    let dialled = ConfirmingConnection::dial(&client.confirmations.settings, &client.clock, bound).await;
    let connection = dialled.map_err(|error| match error.kind() {
        ErrorKind::Forbidden { .. } => error,
        // A replica, say: it may be a master again in time, as for the client's other requests.
        _ => Error::new(ErrorKind::Unavailable, "not connected to ask replicas").because(error),
    })?;
    match client.driver.leads_to(connection.run_id()) {
        true => Ok(connection),
        false => Err(Error::new(
            ErrorKind::Unavailable,
            "another server answers there than the one that this client's locks are on",
        )),
    }
}

/// Applies the answer to a renewal like any other. Answers whether the node is held: a node that is
/// there, and whose queue is under repair, is renewed again.
fn renewed(client: &Arc<Client>, attempt: &Arc<Attempt>, sent: Moment, reply: Reply) -> Result<bool> {
    let (_, queues) = scripts::renewed(reply)?;
    let Some(Ok((flags, answers))) = queues.into_iter().next() else {
        let why = "a key of this queue belongs to another program";
        return Err(Error::new(ErrorKind::Conflict, why));
    };
    client.act_on(flags, &attempt.queue);
    let Some(answer) = answers.into_iter().next() else { return Ok(false) };
    let held = answer == RenewAnswer::Held;
    renewal::renewed(client, attempt, sent, answer);
    if held {
        client.lease.partly_proven(sent);
    }
    Ok(held)
}

fn fewer(confirmed: u64, replicas: u32, took: Duration) -> Error {
    let took = took.as_millis();
    let what = format!("{confirmed} of {replicas} replicas confirmed it within {took} ms; {GIVEN_BACK}");
    Error::new(ErrorKind::Unavailable, what)
}

fn unknown(replicas: u32, took: Duration, why: Option<Error>) -> Error {
    let took = took.as_millis();
    let what = format!("no answer whether {replicas} replicas have it within {took} ms; {GIVEN_BACK}");
    Error::new(ErrorKind::Unavailable, what).because_of(why)
}

fn died() -> Error {
    Error::new(ErrorKind::Unavailable, "the task of the confirmations died, or its runtime")
}
