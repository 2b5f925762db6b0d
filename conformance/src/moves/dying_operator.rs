//! An operator that is killed at one of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::Config;
use rand::RngExt;
use tokio::time::timeout;

use super::operates::Operates;
use super::side::Sides;
use crate::child::Child;

/// What an operator may take, with a machine that starts it.
const PATIENCE: Duration = Duration::from_secs(60);
/// Those who finish a move are killed at requests so far apart.
const FINISHERS_APART: usize = 3;

/// Starts an operator, and kills it when so many of its requests have passed, the last of them carried out or
/// lost. Answers whether it was killed (else it has come to its end), and how many requests have passed.
pub(super) async fn dies(
    sides: &Sides,
    operates: Operates,
    request: usize,
    carried_out: bool,
) -> Result<(bool, usize), String> {
    let doors = [&sides.old.door, &sides.new.door];
    for door in doors {
        // The last words of an operator that has closed would be counted as requests of this one, and a reply to
        // them never comes.
        door.sever();
        let closed = timeout(PATIENCE, door.wait_for_connections(0)).await;
        closed.map_err(|_| format!("somebody still comes in by the operators' door after {PATIENCE:?}"))?;
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let nth = || {
        let asked = Arc::clone(&asked);
        move |_: &[u8]| asked.fetch_add(1, Ordering::AcqRel) + 1 == request
    };
    let start = || Child::start(&Config::of_move(sides.operators()), &operates);
    // What was caught stays caught until the process is dead, and is lost with it then.
    let was_killed = if carried_out {
        let mut caught = doors.map(|door| door.hold_reply_to(nth()));
        let operator = start();
        let [old, new] = &mut caught;
        let either = async {
            tokio::select! { held = old.fired() => held, held = new.fired() => held }
        };
        is_killed(operator, async { either.await.is_ok() }).await
    } else {
        let mut caught = doors.map(|door| door.park_request(nth()));
        let operator = start();
        let [old, new] = &mut caught;
        let either = async {
            tokio::select! { held = old.caught() => held, held = new.caught() => held }
        };
        is_killed(operator, async { either.await.is_ok() }).await
    };
    for door in doors {
        door.sever();
        door.resume();
    }
    Ok((was_killed, asked.load(Ordering::Acquire)))
}

/// Lets those who finish a move be killed, each a few requests behind the one before, until one comes through.
pub(super) async fn killed_at_finish(sides: &Sides, random: &mut impl RngExt) -> Result<(), String> {
    let (mut killed, mut at) = (0, random.random_range(1..=FINISHERS_APART));
    while dies(sides, Operates::Finish, at, random.random()).await?.0 {
        (killed, at) = (killed + 1, at + FINISHERS_APART);
    }
    println!("{}: {killed} operators killed as they finished it", sides.name());
    // One sends as many requests at the least as it takes to connect to both sides.
    if killed == 0 { Err("no operator was killed as it finished the move".to_owned()) } else { Ok(()) }
}

/// Kills an operator when it is caught. Returns whether it was, and otherwise waits until it has ended well.
async fn is_killed(mut operator: Child<()>, caught: impl Future<Output = bool>) -> bool {
    tokio::select! {
        // One whose request was lost may fail before it is killed.
        biased;
        true = caught => operator.process.kill().await,
        // Also if its last request was caught and its connection was closed after that.
        () = operator.process.ends_well(PATIENCE) => return false,
    }
    true
}
