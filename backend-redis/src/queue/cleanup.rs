//! Removes nodes that no caller removes: the client's next acquire would wait for them for up to a TTL
//! (LEASE-CLEAN-UP-AFTER-LOSS). A close removes all nodes and ephemeral cells.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::join_all;
use latchwork_core::backend::decide::queue::TOMBSTONE;
use latchwork_core::backend::{Backoff, Close, NodeWriter, Pauses, SharedTask};
use latchwork_core::{Error, ErrorKind, LostReason, Moment, Result};

use crate::cells::leased::Written;
use crate::client::Client;
use crate::driver::{Driver, Place, by_server};
use crate::scripts::{self, Call};
use crate::watch::Attempt;

/// As expensive as a few renewals for the server, and a join waits for no more.
const LEAVES: usize = 64;
const CELLS: usize = 256;
const CELLS_AT_ONCE: usize = 2048;

/// By name and sequence number, or if a join of the attempt may still arrive, by name alone, with a tombstone
/// (QUEUE-LEAVE-NAMES-NODE, QUEUE-TOMBSTONE-FOR-UNKNOWN-JOIN).
pub(super) fn removal(attempt: &Attempt) -> Call {
    match attempt.state() {
        Some(state) if !attempt.repeated => scripts::leave(&attempt.queue, attempt.id, state.sequence()),
        _ => scripts::abandon(&attempt.queue, attempt.id, TOMBSTONE),
    }
}

/// The request that opens the next lease must not wait for nodes of the lost lease, or meet its cells
/// (LEASE-REOPEN).
pub(crate) async fn before_next_lease(client: &Arc<Client>) {
    if client.lease.current().lost() != Some(LostReason::Expired) {
        return;
    }
    let cleanup = async {
        // A running cleanup may have begun before the last nodes were lost.
        for _ in 0..2 {
            let Some(run) = start(client) else { return };
            run.wait().await;
        }
    };
    if tokio::time::timeout(client.request_timeout, cleanup).await.is_err() {
        tracing::debug!("some lost nodes were not removed in time; the next lease opens anyway");
    }
}

/// Returns the started or running cleanup. `None`: no node and no cell is lost.
pub(crate) fn start(client: &Arc<Client>) -> Option<SharedTask<()>> {
    client.cleanup.run_if(&client.runtime, || {
        let is_lost = |attempt: &Arc<Attempt>| {
            // A node that has just reached its fixed end or was closed is removed later.
            let lost = |state: &NodeWriter| state.lost().is_some() && !state.lingers();
            !attempt.is_leaving() && attempt.state().is_some_and(lost)
        };
        let lost: Vec<_> = client.inbox.all().into_iter().filter(is_lost).collect();
        let cells = client.leased.lost();
        (!lost.is_empty() || !cells.is_empty()).then(|| until_closing(Arc::clone(client), lost, cells))
    })
}

pub(crate) fn later(client: &Arc<Client>, attempt: &Arc<Attempt>) {
    client.runtime.spawn(until_closing(Arc::clone(client), vec![Arc::clone(attempt)], Vec::new()));
}

async fn until_closing(client: Arc<Client>, lost: Vec<Arc<Attempt>>, cells: Vec<Written>) {
    let driver = &client.driver;
    // A silent server must not delay the others.
    let nodes = by_server(lost, |attempt| driver.place(attempt.queue.tag()));
    let nodes = join_all(nodes.values().map(|lost| remove(&client, lost)));
    let cells = of_each_script(driver, &cells);
    let cells = join_all(cells.values().map(|parts| remove_cells(&client, parts)));
    client.closing.run_until_cancelled(async { tokio::join!(nodes, cells) }).await;
}

async fn remove_cells(client: &Arc<Client>, parts: &[Vec<Written>]) {
    for burst in parts.chunks(scripts_at_once(parts)) {
        let calls: Vec<_> = burst.iter().map(|part| end_cells(part)).collect();
        let answers = client.driver.run_all(&calls, client.renewal_bound()).await;
        let mut answered = false;
        for (part, answer) in burst.iter().zip(answers) {
            match answer.and_then(|(_, reply)| scripts::cells_ended(reply)) {
                Ok(flags) => client.warn_of(flags),
                // The next round or the close tries again.
                Err(error) if error.may_pass() => continue,
                Err(error) => {
                    tracing::debug!(%error, "could not remove a cell of a lost lease; the cell expires by its TTL")
                }
            }
            answered = true;
            // None of these writes is under way.
            client.leased.forget(part, Moment::NEVER);
        }
        if !answered {
            return;
        }
    }
}

/// By server. In a cluster each script has one cell, because a server refuses several keys while it moves
/// their slot.
pub(crate) fn of_each_script(driver: &Driver, cells: &[Written]) -> HashMap<Place, Vec<Vec<Written>>> {
    let most = if driver.is_cluster() { 1 } else { CELLS };
    let place = |part: &Vec<Written>| part.first().and_then(|(cell, _)| driver.place(cell.channel()));
    by_server(cells.chunks(most).map(<[_]>::to_vec), place)
}

pub(crate) fn scripts_at_once(parts: &[Vec<Written>]) -> usize {
    let largest = parts.iter().map(Vec::len).max().unwrap_or(1);
    (CELLS_AT_ONCE / largest).clamp(1, LEAVES)
}

fn end_cells(cells: &[Written]) -> Call {
    scripts::end_cells(cells.iter().map(|(cell, nonce)| (cell, *nonce)))
}

async fn remove(client: &Arc<Client>, lost: &[Arc<Attempt>]) {
    for burst in lost.chunks(LEAVES) {
        let burst: Vec<_> = burst.iter().filter(|attempt| attempt.begin_leave()).collect();
        let calls: Vec<_> = burst.iter().map(|attempt| removal(attempt)).collect();
        let answers = client.driver.run_all(&calls, client.renewal_bound()).await;
        let (mut silent, mut answered) = (false, false);
        for (attempt, answer) in burst.iter().zip(answers) {
            match answer.and_then(|(_, reply)| scripts::was_done(reply)) {
                Ok((_, flags)) => {
                    answered = true;
                    client.act_on(flags, &attempt.queue);
                }
                Err(error) if error.may_pass() => {
                    attempt.undo_leave();
                    silent = true;
                    continue;
                }
                Err(error) => {
                    tracing::debug!(%error, "could not remove a lost node; the node expires by its TTL")
                }
            }
            client.forget(attempt);
        }
        if silent && !answered {
            return;
        }
    }
}

/// Every caller gets the same answer.
pub(crate) async fn close(client: &Arc<Client>, how: Close) -> Result<()> {
    let begin = || {
        client.closing.cancel();
        if how == Close::Abrupt {
            client.driver.cut();
            client.confirmations.close();
        }
        // In the caller's task: the client's runtime may be blocked.
        let attempts = end_holds(client, how);
        let client = Arc::clone(client);
        async move { end(&client, how, attempts).await }
    };
    client.closed.close(&client.runtime, client.request_timeout, begin).await
}

fn end_holds(client: &Client, how: Close) -> Vec<Arc<Attempt>> {
    let attempts = client.inbox.all();
    for attempt in &attempts {
        attempt.begin_leave();
        // A dead client reports no close: its holds are lost at their deadlines.
        if let (Close::Orderly, Some(state)) = (how, attempt.state()) {
            state.gone(LostReason::Closed);
        }
    }
    attempts
}

async fn end(client: &Client, how: Close, attempts: Vec<Arc<Attempt>>) -> Result<()> {
    let until = client.clock.now() + client.request_timeout;
    let mut result = Ok(());
    if how == Close::Orderly {
        let now = client.clock.now();
        // A silent server must not delay the others.
        let mut servers: HashMap<Place, Vec<Call>> = HashMap::new();
        for attempt in &attempts {
            let calls = servers.entry(client.driver.place(attempt.queue.tag())).or_default();
            calls.extend(removal_at_close(attempt, now));
        }
        for (place, parts) in of_each_script(&client.driver, &client.leased.every()) {
            servers.entry(place).or_default().extend(parts.iter().map(|part| end_cells(part)));
        }
        let ended = join_all(servers.values().map(|calls| confirm_all(client, calls, until))).await;
        if let Err(error) = ended.into_iter().collect::<Result<()>>() {
            tracing::debug!(%error, "the server did not confirm the removal of a node or cell at close");
            let what = "closed, but the server did not confirm the removal of every node and cell: the others expire within a TTL";
            result = Err(Error::new(ErrorKind::Unavailable, what).because(error));
        }
        client.driver.close(until.since(client.clock.now())).await;
    }
    client.confirmations.close();
    client.driver.cut();
    client.lease.close();
    result
}

fn removal_at_close(attempt: &Attempt, now: Moment) -> Option<Call> {
    let kept = attempt.state().is_some_and(|state| state.kept_until() > now);
    (!kept).then(|| removal(attempt))
}

/// A refusal precedes a missing answer.
async fn confirm_all(client: &Client, calls: &[Call], until: Moment) -> Result<()> {
    let (mut left, mut refused) = (calls.iter().collect::<Vec<_>>(), None);
    // If the connection is silent, half of the time is left for another one.
    let most = client.renewal_bound().min(client.request_timeout / 2);
    let mut pauses = Backoff::new(Pauses::IN_REQUEST);
    loop {
        let (mut again, mut unconfirmed) = (Vec::new(), None);
        for burst in left.chunks(LEAVES) {
            let time = until.since(client.clock.now()).min(most);
            let answers = client.driver.run_all(burst.iter().copied(), time).await;
            for (&call, answer) in burst.iter().zip(answers) {
                match answer {
                    Ok(_) => {}
                    Err(error) if error.may_pass() => {
                        again.push(call);
                        unconfirmed = Some(error);
                    }
                    Err(error) => refused = Some(error),
                }
            }
        }
        let time = until.since(client.clock.now());
        if unconfirmed.is_none() || time.is_zero() {
            return refused.or(unconfirmed).map_or(Ok(()), Err);
        }
        tokio::time::sleep(pauses.next().min(time)).await;
        left = again;
    }
}
