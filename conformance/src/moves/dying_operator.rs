use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::Config;
use rand::RngExt;
use tokio::time::timeout;

use super::operates::Operates;
use super::side::Sides;
use crate::child::Child;

/// Includes the start of the process.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests between two kills.
const FINISHERS_APART: usize = 3;

/// Returns whether the kill came before the end, and the number of requests.
pub(super) async fn dies(
    sides: &Sides,
    operates: Operates,
    request: usize,
    carried_out: bool,
) -> Result<(bool, usize), String> {
    let doors = [&sides.old.door, &sides.new.door];
    for door in doors {
        // Late requests would count for this operator, and get no reply.
        door.sever();
        let closed = timeout(PATIENCE, door.wait_for_connections(0)).await;
        closed.map_err(|_| format!("an operator still has a connection after {PATIENCE:?}"))?;
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let nth = || {
        let asked = Arc::clone(&asked);
        move |_: &[u8]| asked.fetch_add(1, Ordering::AcqRel) + 1 == request
    };
    let start = || Child::start(&Config::of_move(sides.operators()), &operates);
    // The request is held until the process is dead, and then lost.
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

/// Each is killed a few requests later, until one succeeds.
pub(super) async fn killed_at_finish(sides: &Sides, random: &mut impl RngExt) -> Result<(), String> {
    let (mut killed, mut at) = (0, random.random_range(1..=FINISHERS_APART));
    while dies(sides, Operates::Finish, at, random.random()).await?.0 {
        (killed, at) = (killed + 1, at + FINISHERS_APART);
    }
    println!("{}: {killed} operators killed as they finished it", sides.name());
    // An operator always sends the requests of its connects.
    if killed == 0 { Err("no operator was killed as it finished the move".to_owned()) } else { Ok(()) }
}

async fn is_killed(mut operator: Child<()>, caught: impl Future<Output = bool>) -> bool {
    tokio::select! {
        // After a lost request an operator may fail before the kill.
        biased;
        true = caught => operator.process.kill().await,
        // The caught request may be the last one.
        () = operator.process.ends_well(PATIENCE) => return false,
    }
    true
}
