//! Renewal: every node has a lease of its own, and one task renews all of them in batches, and the
//! client's ephemeral cells beside them (LEASE-ALIVE).

mod batches;
mod cells;
mod clock_steps;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_core::decide::renewal_period;
use latchwork_core::{Error, Moment, Result};
use tokio::sync::Notify;

use self::batches::{Batch, batches, request};
use self::clock_steps::ClockSteps;
use crate::client::Client;
use crate::driver::Losses;
use crate::layout::QueueKeys;
use crate::queue::cleanup;
use crate::queue::wait::next_recheck;
use crate::scripts::{self, RenewAnswer, Renewed, ServerTime};
use crate::watch::Attempt;

/// Scripts in one burst: a join waits behind no more than these.
const BURST: usize = 8;
/// The pause before a failed round is repeated. It is constant: a lease is kept as long as it can
/// be.
const AGAIN: Duration = Duration::from_millis(100);

/// The task: a round every third of the TTL, at once after a reconnect, and soon again after a
/// failed round. It ends with the client.
pub(crate) async fn renew_always(client: Weak<Client>, reconnected: Arc<Notify>) {
    let Some((clock, closing, period)) = client
        .upgrade()
        .map(|client| (client.clock.clone(), client.closing.clone(), renewal_period(client.ttl)))
    else {
        return;
    };
    let mut steps = ClockSteps::default();
    let mut next = clock.now() + period;
    let rounds = async {
        loop {
            tokio::select! {
                () = clock.sleep_until(next) => {}
                () = reconnected.notified() => {}
            }
            let Some(client) = client.upgrade() else { return };
            let started = clock.now();
            next = match renew_all(&client, &mut steps).await {
                Ok(()) => started + period,
                Err(error) => {
                    tracing::debug!(%error, "not everything was renewed; again soon");
                    // A refusal may end in time, but is not asked for in a tight loop.
                    clock.now() + if error.is_retryable() { AGAIN } else { AGAIN.max(period / 4) }
                }
            };
        }
    };
    closing.run_until_cancelled(rounds).await;
}

/// The task: suspends all leases when the connection is lost, so that holders and waiters need not
/// find out by a late renewal. The first round on the next connection proves them. It ends with the
/// client.
pub(crate) async fn suspend_on_loss(client: Weak<Client>, mut losses: Losses) {
    while losses.next().await.is_some() {
        let Some(client) = client.upgrade() else { return };
        client.lease.suspend();
        for attempt in client.inbox.all() {
            if let Some(state) = attempt.state() {
                state.lease_writer().suspend();
            }
        }
    }
}

async fn renew_all(client: &Arc<Client>, steps: &mut ClockSteps) -> Result<()> {
    let started = client.clock.now();
    let due = started + renewal_period(client.ttl);
    let mut queues: HashMap<QueueKeys, Vec<Arc<Attempt>>> = HashMap::new();
    let mut any_lost = false;
    for attempt in client.inbox.all() {
        if attempt.is_obsolete(started) {
            client.forget(&attempt);
        }
        let held = attempt.state().filter(|state| !attempt.is_leaving() && !state.is_leaving());
        let Some(state) = held else { continue };
        // Timers do not count a machine's sleep: this makes the waiters on the lease read the clock
        // (LEASE-CLOCK-COUNTS-SLEEP).
        state.lease_writer().tick();
        // A loss is final, and nothing is renewed past its fixed end.
        match state.lost() {
            None => {
                state.lease_writer().awaiting(started, due);
                queues.entry(attempt.queue.clone()).or_default().push(attempt);
            }
            Some(_) => any_lost = true,
        }
    }
    let cells = client.leased.to_renew();
    any_lost |= !client.leased.lost().is_empty();
    client.lease.awaiting(started, due);
    if queues.is_empty() && cells.is_empty() {
        let sent = client.driver.ping(client.renewal_bound()).await?;
        client.lease.proven(sent);
        if any_lost {
            cleanup::start(client);
        }
        return Ok(());
    }
    let observe = |sent, time| steps.observe(sent, client.clock.now(), time, client.ttl);
    let renewed = match tokio::join!(renew(client, queues, observe), cells::renew(client, cells)) {
        (Ok(nodes), Ok(cells)) => Ok(nodes && cells),
        (Err(error), _) | (_, Err(error)) => Err(error),
    };
    if matches!(renewed, Ok(true)) {
        client.lease.proven(started);
    }
    if any_lost && !renewed.as_ref().is_err_and(Error::is_retryable) {
        cleanup::start(client);
    }
    renewed.map(drop)
}

/// Renews nodes in bursts. Answers whether no queue was refused; an outright refusal is the error,
/// after all other scripts. `answered` gets the send time of each answered script, and the server's
/// time in it.
pub(crate) async fn renew(
    client: &Arc<Client>,
    queues: HashMap<QueueKeys, Vec<Arc<Attempt>>>,
    mut answered: impl FnMut(Moment, ServerTime),
) -> Result<bool> {
    if queues.is_empty() {
        return Ok(true);
    }
    let (mut all, mut left, mut refusal) = (true, batches(queues), None);
    while !left.is_empty() {
        let mut result = Ok(());
        let burst: Vec<_> = left.drain(..left.len().min(BURST)).collect();
        let calls: Vec<_> = burst.iter().map(|batch| request(batch, client.ttl)).collect();
        let answers = client.driver.run_all(&calls, client.renewal_bound()).await;
        for (batch, answer) in burst.into_iter().zip(answers) {
            match answer.and_then(|(sent, reply)| Ok((sent, scripts::renewed(reply)?))) {
                Ok((sent, (time, answers))) => {
                    answered(sent, time);
                    let refused = apply(client, &batch, sent, answers);
                    if refused < batch.len() {
                        client.lease.partly_proven(sent);
                    }
                    all &= refused == 0;
                }
                Err(error) if error.is_retryable() => result = Err(error),
                // The keys of one queue may be forbidden. The others must not be lost with it.
                Err(_) if batch.len() > 1 => left.extend(batch.into_iter().map(|queue| vec![queue])),
                Err(error) => refusal = Some(error),
            }
        }
        // The rest is not sent to a silent server: the next round begins with everything.
        result?;
    }
    refusal.map_or(Ok(all), Err)
}

/// Answers how many queues were refused: a key of theirs belongs to another program, and their
/// nodes run out.
fn apply(client: &Arc<Client>, batch: &Batch, sent: Moment, answers: Renewed) -> usize {
    let mut refused = 0;
    for ((queue, attempts), answer) in batch.iter().zip(answers) {
        match answer {
            Ok((flags, answers)) => {
                client.act_on(flags, queue);
                for (attempt, answer) in attempts.iter().zip(answers) {
                    renewed(client, attempt, sent, answer);
                }
            }
            Err(words) => {
                tracing::debug!(?queue, words, "a queue was not renewed");
                refused += 1;
            }
        }
    }
    refused
}

pub(crate) fn renewed(client: &Arc<Client>, attempt: &Arc<Attempt>, sent: Moment, answer: RenewAnswer) {
    let Some(state) = attempt.state().filter(|_| !attempt.is_leaving()) else { return };
    if answer == RenewAnswer::Gone {
        return state.gone(client.why_gone(state.lease()));
    }
    // Before the answer moves the deadline.
    let why = client.why_gone(state.lease());
    if !state.lease_writer().proven(sent) {
        // The server renewed the node, but too late for us. Our own next acquire must not wait
        // behind it (QUEUE-LATE-REPLY-REVIVES-NOTHING, LEASE-CLEAN-UP-AFTER-LOSS).
        return cleanup::later(client, attempt);
    }
    match answer {
        RenewAnswer::Held => {
            if attempt.admit(client.clock.now()) {
                client.rechecks.found_admission();
            }
        }
        // Admitted before this was sent, and not any more: something else has changed the queue.
        RenewAnswer::Waiting { .. } | RenewAnswer::Unfit { .. }
            if attempt.admitted_at().is_some_and(|admitted| admitted < sent) =>
        {
            state.gone(why);
            cleanup::later(client, attempt);
        }
        RenewAnswer::Waiting { ahead } => attempt.waits(next_recheck(client, ahead)),
        RenewAnswer::Unfit { stored } => attempt.outweighs(stored),
        // The node stands as before. The client that repairs the queue continues, and notifies it
        // then.
        RenewAnswer::Unsettled | RenewAnswer::Gone => {}
    }
}
