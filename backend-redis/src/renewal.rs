//! One task renews all nodes and ephemeral cells of a client, in batches (LEASE-ALIVE).

mod batches;
mod cells;
mod clock_steps;
mod pace;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use latchwork_core::backend::decide::renewal_period;
use latchwork_core::{Error, Moment, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::batches::{Batch, batches, request};
use self::clock_steps::ClockSteps;
use crate::client::{Client, last_seen};
use crate::driver::{Lost, Place, by_server};
use crate::layout::QueueKeys;
use crate::queue::cleanup;
use crate::queue::wait::next_recheck;
use crate::scripts::{self, RenewAnswer, Renewed, ServerTime};
use crate::watch::Attempt;

/// A join waits for one burst, while the round has time ([`pace`]).
const NODES_AT_ONCE: usize = 2048;
const QUEUES_AT_ONCE: usize = 256;
const SCRIPTS_AT_ONCE: usize = 64;
/// Constant, to keep a lease as long as possible.
const AGAIN: Duration = Duration::from_millis(100);

pub(crate) async fn renew_always(client: Weak<Client>, reconnected: Arc<Notify>) {
    let Some((clock, closing, period)) = client
        .upgrade()
        .map(|client| (client.clock.clone(), client.closing.clone(), renewal_period(client.ttl)))
    else {
        return;
    };
    let mut steps = HashMap::new();
    let mut next = clock.now() + period;
    let mut began: Option<Moment> = None;
    let rounds = async {
        loop {
            tokio::select! {
                () = clock.sleep_until(next) => {}
                () = reconnected.notified() => began = None,
            }
            let Some(client) = client.upgrade() else { return };
            let started = clock.now();
            // A silent server causes no second renewal of other servers' nodes.
            let round = began.filter(|began| started < *began + period).unwrap_or(started);
            began = Some(round);
            next = match renew_all(&client, &mut steps, round).await {
                Ok(()) => {
                    began = None;
                    round + period
                }
                Err(error) => {
                    tracing::debug!(%error, "some nodes or cells were not renewed; the client tries again soon");
                    clock.now() + if error.may_pass() { AGAIN } else { AGAIN.max(period / 4) }
                }
            };
        }
    };
    closing.run_until_cancelled(rounds).await;
}

/// A lost connection is noticed before a renewal is late. The first round on the next one proves the leases.
pub(crate) async fn suspend_on_loss(client: Weak<Client>, mut losses: Lost) {
    while let Some(host) = losses.next().await {
        let Some(client) = client.upgrade() else { return };
        client.lease.suspend();
        for attempt in client.inbox.all() {
            if client.driver.place(attempt.queue.tag()) != host {
                continue;
            }
            if let Some(state) = attempt.state() {
                state.lease_writer().suspend();
            }
        }
    }
}

async fn renew_all(
    client: &Arc<Client>,
    steps: &mut HashMap<Place, ClockSteps>,
    round: Moment,
) -> Result<()> {
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
        // Timers do not count a machine's sleep, so waiters must read the clock (LEASE-CLOCK-COUNTS-SLEEP).
        state.lease_writer().tick();
        // A loss is final, and no hold is renewed past its fixed end.
        match state.lost() {
            None => {
                if started > round && last_seen(state.lease()) >= round {
                    continue;
                }
                state.lease_writer().awaiting(started, due);
                queues.entry(attempt.queue.clone()).or_default().push(attempt);
            }
            Some(_) => any_lost = true,
        }
    }
    let cells = client.leased.to_renew(round);
    any_lost |= !client.leased.lost().is_empty();
    client.lease.awaiting(started, due);
    if queues.is_empty() && cells.is_empty() {
        let sent = client.driver.ping(client.renewal_bound()).await?;
        // A repeated round leaves out nodes that were renewed since its beginning.
        client.lease.proven(if started > round { round } else { sent });
        if any_lost {
            cleanup::start(client);
        }
        return Ok(());
    }
    let observe = |place: &Place, sent, time| {
        steps.entry(place.clone()).or_default().observe(sent, client.clock.now(), time, client.ttl);
    };
    let (nodes, cells) = tokio::join!(renew(client, queues, observe), cells::renew(client, cells));
    let renewed = every([nodes, cells.map(|()| true)]).map(|whole| !whole.contains(&false));
    if matches!(renewed, Ok(true)) {
        client.lease.proven(round);
    }
    if any_lost && !renewed.as_ref().is_err_and(Error::may_pass) {
        cleanup::start(client);
    }
    renewed.map(drop)
}

/// In bursts, on all servers at once. Returns whether no queue was refused. The refusal of a whole script is
/// returned after all other scripts. `answered` gets the send time of each answered script, its server, and
/// the server's time.
pub(crate) async fn renew(
    client: &Arc<Client>,
    queues: HashMap<QueueKeys, Vec<Arc<Attempt>>>,
    answered: impl FnMut(&Place, Moment, ServerTime) + Send,
) -> Result<bool> {
    if queues.is_empty() {
        return Ok(true);
    }
    let batches = batches(queues, |queue| client.driver.slot(queue.tag()));
    let servers =
        by_server(batches, |batch| batch.first().and_then(|(queue, _)| client.driver.place(queue.tag())));
    let answered = Mutex::new(answered);
    let renewing = servers.into_iter().map(|(place, batches)| {
        let answered = &answered;
        async move {
            let observe = |sent, time| (*answered.lock())(&place, sent, time);
            renew_at(client, batches, observe).await
        }
    });
    // A silent server must not delay the others.
    Ok(every(join_all(renewing).await)?.into_iter().all(|whole| whole))
}

/// The error of a server that may still answer precedes a refusal.
fn every<T>(renewed: impl IntoIterator<Item = Result<T>>) -> Result<Vec<T>> {
    let (mut answers, mut failed) = (Vec::new(), None);
    for renewed in renewed {
        match renewed {
            Ok(answer) => answers.push(answer),
            Err(error) if error.may_pass() || failed.is_none() => failed = Some(error),
            Err(_) => {}
        }
    }
    failed.map_or(Ok(answers), Err)
}

async fn renew_at(
    client: &Arc<Client>,
    mut left: Vec<Batch>,
    answered: impl Fn(Moment, ServerTime),
) -> Result<bool> {
    let (mut all, mut refusal, mut missing) = (true, None, None);
    let (clock, began) = (&client.clock, client.clock.now());
    let mut trip = Duration::ZERO;
    while !left.is_empty() {
        let mut answers_come = false;
        let sent = clock.now();
        let spare = pace::round_time(client.ttl).saturating_sub(sent.since(began));
        let single = burst(&left, 1);
        let width = pace::width(left.len().div_ceil(single), trip, spare);
        let burst: Vec<_> = left.drain(..burst(&left, width)).collect();
        let calls: Vec<_> = burst.iter().map(|batch| request(batch, client.ttl)).collect();
        let answers = client.driver.run_all(&calls, client.renewal_bound()).await;
        trip = clock.now().since(sent);
        for (batch, answer) in burst.into_iter().zip(answers) {
            match answer.and_then(|(sent, reply)| Ok((sent, scripts::renewed(reply)?))) {
                Ok((sent, (time, answers))) => {
                    answers_come = true;
                    answered(sent, time);
                    let refused = apply(client, &batch, sent, answers);
                    if refused < batch.len() {
                        client.lease.partly_proven(sent);
                    }
                    all &= refused == 0;
                }
                Err(error) if error.may_pass() => missing = Some(error),
                // The keys of one queue may be forbidden, which must not end the nodes of others.
                Err(error) => {
                    answers_come = true;
                    match batch.len() {
                        1 => refusal = Some(error),
                        _ => left.extend(batch.into_iter().map(|queue| vec![queue])),
                    }
                }
            }
        }
        // A silent server gets nothing more. One that answers for other slots is not silent: a slot that is
        // being moved may not answer for long.
        if !answers_come {
            break;
        }
    }
    missing.or(refusal).map_or(Ok(all), Err)
}

/// Scripts for a cluster mostly have one queue each.
fn burst(batches: &[Batch], width: usize) -> usize {
    let (mut nodes, mut queues) = (0, 0);
    let fits = batches.iter().take_while(|batch| {
        nodes += batch.iter().map(|(_, attempts)| attempts.len()).sum::<usize>();
        queues += batch.len();
        nodes <= NODES_AT_ONCE * width && queues <= QUEUES_AT_ONCE * width
    });
    fits.count().clamp(1, batches.len().min(SCRIPTS_AT_ONCE * width))
}

/// Returns the number of refused queues: a key of each belongs to another program, and their nodes expire.
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
                tracing::debug!(?queue, words, "the server refused to renew the nodes of a queue");
                refused += 1;
            }
        }
    }
    refused
}

pub(crate) fn renewed(client: &Arc<Client>, attempt: &Arc<Attempt>, sent: Moment, answer: RenewAnswer) {
    let Some(state) = attempt.state().filter(|_| !attempt.is_leaving()) else { return };
    if answer == RenewAnswer::Gone {
        return state.gone(client.why_gone(&attempt.queue, state.lease()));
    }
    // Before the answer moves the deadline.
    let why = client.why_gone(&attempt.queue, state.lease());
    if !state.lease_writer().proven(sent) {
        // The reply came after the deadline (QUEUE-LATE-REPLY-REVIVES-NOTHING). The next acquire must not
        // wait for this node (LEASE-CLEAN-UP-AFTER-LOSS).
        return cleanup::later(client, attempt);
    }
    match answer {
        RenewAnswer::Held => {
            if attempt.admit(client.clock.now()) {
                client.rechecks.found_admission();
            }
        }
        // Admitted before the request, but not now: another program has changed the queue.
        RenewAnswer::Waiting { .. } | RenewAnswer::Unfit { .. }
            if attempt.admitted_at().is_some_and(|admitted| admitted < sent) =>
        {
            state.gone(why);
            cleanup::later(client, attempt);
        }
        RenewAnswer::Waiting { ahead } => attempt.waits(next_recheck(client, ahead)),
        RenewAnswer::Unfit { stored } => attempt.outweighs(stored),
        // The node keeps its state. The client that repairs the queue notifies it at the end.
        RenewAnswer::Unsettled | RenewAnswer::Gone => {}
    }
}
