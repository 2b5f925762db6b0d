//! Confirmation by replicas (NODE-CONFIRM): a node counts as acquired once the requested number of replicas
//! have it. `docs/protocol/redis-queue.md` has the steps.
//!
//! A separate connection renews the admitted node and, in the same burst, sends `WAIT`, which counts the
//! replicas that have all writes of its *own* connection (QUEUE-CONFIRM-COVERS-ADMISSION,
//! QUEUE-CONFIRM-APART). One task does this for all acquisitions of a client, in rounds. The renewal moves
//! the node's deadline, and `WAIT` moves none. The connection must reach the same run of the server as the
//! client's other connection, because two masters may each have replicas.

use std::sync::Arc;
use std::time::Duration;

use latchwork_core::backend::{Backoff, NodeState, Pauses};
use latchwork_core::{Error, ErrorKind, Moment, Result};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::confirmations::{Ask, Heard, OfServer};
use crate::client::Client;
use crate::driver::{Burst, ConfirmingConnection};
use crate::renewal;
use crate::scripts::{self, RenewAnswer, Reply};
use crate::watch::Attempt;

/// A new acquisition waits for the end of the running `WAIT`.
const ROUND: Duration = Duration::from_millis(50);
/// An idle server notices the end of a `WAIT` this late: it checks ten times a second.
const LATE: Duration = Duration::from_millis(100);

/// Cancel-safe: the next round leaves the node out.
pub(super) async fn confirm(
    client: &Arc<Client>,
    attempt: &Arc<Attempt>,
    state: &NodeState,
    replicas: u32,
    within: Duration,
) -> Result<()> {
    let until = client.clock.now() + within;
    let last = Mutex::new(watch::channel(Heard::Nothing).1);
    let answered = async {
        loop {
            let server = client.confirmations.at(client.driver.place(attempt.queue.tag()));
            let (heard, mut hears) = watch::channel(Heard::Nothing);
            *last.lock() = hears.clone();
            let attempt = Arc::clone(attempt);
            server.asked.lock().push(Ask { attempt, replicas, until, written: false, heard });
            if let Some(answer) = answer(client, &server, &mut hears).await {
                return answer;
            }
        }
    };
    tokio::select! {
        biased;
        () = client.closing.cancelled() => Err(Error::closed()),
        answer = answered => answer,
        reason = state.until_lost() => Err(Error::lost(reason)),
        () = client.clock.sleep_until(until) => Err(last.lock().borrow().late(replicas, within)),
    }
}

/// `None`: another server has the queue now.
async fn answer(
    client: &Arc<Client>,
    server: &Arc<OfServer>,
    hears: &mut watch::Receiver<Heard>,
) -> Option<Result<()>> {
    loop {
        let rounds = server.rounds.run(&client.runtime, || {
            let (client, server, closing) = (Arc::clone(client), Arc::clone(server), client.closing.clone());
            async move {
                closing.run_until_cancelled(answer_all(&client, &server)).await;
            }
        });
        let answer = async {
            let heard = hears.wait_for(Heard::is_last).await.ok()?;
            Some(heard.answer())
        };
        tokio::select! {
            biased;
            answer = answer => match answer {
                Some(answer) => return answer,
                None => std::future::pending().await,
            },
            // The rounds may have ended just before they saw this acquisition.
            _ = rounds.wait() => {}
        }
    }
}

async fn answer_all(client: &Arc<Client>, server: &OfServer) {
    let mut connection = server.connection.lock().take();
    let (mut asks, mut pauses) = (Vec::new(), Backoff::new(Pauses::IN_REQUEST));
    loop {
        asks.append(&mut server.asked.lock());
        let now = client.clock.now();
        asks.retain(|ask: &Ask| {
            if client.driver.place(ask.attempt.queue.tag()) != server.place {
                ask.hears(Heard::Moved);
            }
            !ask.is_over(now)
        });
        if asks.is_empty() {
            break;
        }
        match round(client, server, &mut connection, &mut asks).await {
            Ok(()) if asks.iter().all(|ask| ask.written) => {
                pauses.reset();
                continue;
            }
            // The queue is under repair, or the node is lost.
            Ok(()) => {}
            Err(error) => {
                tracing::debug!(%error, "could not ask the replicas for confirmation; the client tries again");
                connection = None;
                client.driver.is_stale();
                for ask in &asks {
                    ask.hears(match error.may_pass() {
                        true => Heard::Failed(error.clone()),
                        false => Heard::Refused(error.clone()),
                    });
                }
            }
        }
        pauses.wait(&client.clock).await;
    }
    let mut kept = server.connection.lock();
    // A close cancels this task, and then takes the connection.
    if !client.closing.is_cancelled() {
        *kept = connection;
    }
}

async fn round(
    client: &Arc<Client>,
    server: &OfServer,
    connection: &mut Option<ConfirmingConnection>,
    asks: &mut [Ask],
) -> Result<()> {
    let bound = client.renewal_bound().min(client.request_timeout / 2);
    let connection =
        match connection.take().filter(|last| client.driver.leads_to(&server.place, last.run_id())) {
            Some(last) => connection.insert(last),
            None => {
                asks.iter_mut().for_each(|ask| ask.written = false);
                connection.insert(dial(client, server, bound).await?)
            }
        };
    let (mut new, mut calls) = (Vec::new(), Vec::new());
    for (place, ask) in asks.iter().enumerate().filter(|(_, ask)| !ask.written) {
        if let Some(call) = ask.renewal(client.ttl) {
            new.push(place);
            calls.push(call);
        }
    }
    // The number of the first acquisition, so that later ones with lower numbers never delay it.
    let asked = asks.first().map_or(1, |ask| ask.replicas);
    let answered = connection.write_and_wait(&calls, asked, ROUND, bound + LATE).await?;
    let Burst { sent, replies, replicas } = answered;
    // For example, the slot of the queue is being moved.
    let mut failed = None;
    for (place, reply) in new.into_iter().zip(replies) {
        let ask = &mut asks[place];
        match reply.and_then(|reply| renewed(client, &ask.attempt, sent, reply)) {
            Ok(held) => ask.written = held,
            Err(error) if error.may_pass() => {
                client.driver.is_stale();
                ask.hears(Heard::Failed(error.clone()));
                failed = Some(error);
            }
            Err(error) => ask.hears(Heard::Refused(error)),
        }
    }
    for ask in asks.iter().filter(|ask| ask.written) {
        ask.hears(if u64::from(ask.replicas) <= replicas {
            Heard::Confirmed
        } else {
            Heard::Fewer(replicas)
        });
    }
    match failed {
        Some(error) if !asks.iter().any(|ask| ask.written) => Err(error),
        // The next round repeats it, and the others do not wait for a pause.
        _ => Ok(()),
    }
}

async fn dial(client: &Client, server: &OfServer, bound: Duration) -> Result<ConfirmingConnection> {
    let dialled = ConfirmingConnection::dial(&server.settings, &client.clock, bound).await;
    let connection = dialled.map_err(|error| match error.kind() {
        ErrorKind::Forbidden => error,
        // For example, a replica may become a master again in time.
        _ => Error::new(ErrorKind::Unavailable, "could not open the connection that asks replicas")
            .because(error),
    })?;
    match client.driver.leads_to(&server.place, connection.run_id()) {
        true => Ok(connection),
        false => Err(Error::new(
            ErrorKind::Unavailable,
            "the connection that asks replicas reached another server, without this client's locks",
        )),
    }
}

/// Returns whether the node is held. A node whose queue is under repair is renewed again.
fn renewed(client: &Arc<Client>, attempt: &Arc<Attempt>, sent: Moment, reply: Reply) -> Result<bool> {
    let (_, queues) = scripts::renewed(reply)?;
    let Some(Ok((flags, answers))) = queues.into_iter().next() else {
        let why = "a key of this queue belongs to another program: use another key";
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
