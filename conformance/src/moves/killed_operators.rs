//! Operators are killed at each of their requests, and others go on.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_core::decide::moving::MovePhase;
use latchwork_core::{Config, Move, MoveState};
use rand::RngExt;
use tokio::process::Child;
use tokio::time::timeout;

use super::ends::Ends;
use super::operates::Operates;
use super::run::{NAME, Run, said};
use super::side::{MovingSide, Sides};
use super::there_and_back::Plants;
use super::walk::{Change, Walk};
use crate::adapter::Adapter;
use crate::failover::{NOISE, TTL, now};
use crate::order::Order;

/// What an operator may take, with a machine that starts it.
const PATIENCE: Duration = Duration::from_secs(60);

/// At which of their requests operators are killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// At so many of each work, by chance.
    Some(usize),
    /// At each of them, until one comes through.
    All,
}

/// Eight processes contend while operators take their locks to *new*, and back to the beginning. Each operator
/// is a process, killed when the n-th of its requests was carried out, or when it is lost. Another goes on behind
/// it, the same way or back first. In the end one who is killed takes it to *done*, and another goes on, and
/// finishes it.
///
/// # Errors
/// What was wrong: see [the module](super).
pub async fn with_operators_killed(old: MovingSide, new: MovingSide, points: Points) -> Result<(), String> {
    let mut run = Run::begin(old, new, None, Plants::NONE.operator).await?;
    // Whatever passes the doors is a request of those who die.
    run.walk.operator.close().await.map_err(said)?;
    let works = [Operates::ToNew, Operates::Abort];
    let (mut takes, mut killed) = ([0; 2], [0; 2]);
    for (work, operates) in works.into_iter().enumerate() {
        takes[work] = killed_once(&mut run, operates, usize::MAX, true).await?.1;
    }
    let mut turn = 0;
    let mut goes = [true; 2];
    while goes.contains(&true) {
        turn += 1;
        for carried_out in [true, false] {
            for (work, operates) in works.into_iter().enumerate() {
                let request = match points {
                    // One work takes fewer requests than another: not every step waits for somebody.
                    Points::Some(_) => run.random.random_range(1..=(takes[work] * 3).div_ceil(4)),
                    Points::All => turn,
                };
                let (was_killed, _) = killed_once(&mut run, operates, request, carried_out).await?;
                killed[work] += usize::from(was_killed);
                // One that comes through sends no more of them.
                goes[work] &= match points {
                    Points::Some(most) => turn < most,
                    Points::All => was_killed,
                };
            }
        }
    }
    let at = run.random.random_range(1..=takes[0] / 2);
    let (of_a_run, _) = killed_once(&mut run, Operates::Run, at, true).await?;
    let name = run.sides.name();
    println!("{name}: {} operators killed on the way there, which takes {} requests", killed[0], takes[0]);
    println!("{name}: {} on the way back, which takes {}; one of a whole run at {at}", killed[1], takes[1]);
    if killed.contains(&0) || !of_a_run {
        return Err(format!("not each work had an operator who was killed: {killed:?}, {of_a_run}"));
    }
    let operator = operator(&run.sides).await?;
    run.walk = Walk { operator, changes: run.walk.changes };
    run.end(Ends { operators_die: true, finishes: true, ..Ends::default() }).await
}

async fn operator(sides: &Sides) -> Result<Move, String> {
    Move::connect(&sides.connectors(), &sides.operators(NAME)).await.map_err(said)
}

/// Lets an operator work who is killed at a request, and another one behind it, who goes on or turns back
/// first. Answers whether the first was killed (else it has come to its end), and how many requests it sent.
async fn killed_once(
    run: &mut Run,
    operates: Operates,
    request: usize,
    carried_out: bool,
) -> Result<(bool, usize), String> {
    let begun = now();
    let (was_killed, sent) = dies(&run.sides, operates, request, carried_out).await?;
    let written = now();
    let another = operator(&run.sides).await?;
    let turns_back = was_killed && operates != Operates::Run && run.random.random_bool(0.3);
    if turns_back {
        Operates::Abort.by(&another).await.map_err(said)?;
    }
    operates.by(&another).await.map_err(said)?;
    let phase = stands(&another, operates).await?;
    another.close().await.map_err(said)?;
    run.walk.changes.push(Change { what: "an operator and another", phase, begun, written, known: now() });
    run.fleet.all_are_granted(TTL + NOISE).await?;
    Ok((was_killed, sent))
}

/// The phase where the move stands: that to which this work takes it.
async fn stands(operator: &Move, behind: Operates) -> Result<MovePhase, String> {
    let status = operator.status().await.map_err(said)?;
    let expected = match behind {
        Operates::ToNew => (MoveState::Begun, MovePhase::New),
        Operates::Abort => (MoveState::NotBegun, MovePhase::Old),
        Operates::Run => (MoveState::Done, MovePhase::Done),
    };
    match (status.state, status.phase) == expected {
        true => Ok(status.phase),
        false => Err(format!("behind {behind:?} the move stands at {status:?}")),
    }
}

/// Starts an operator, and kills it when so many of its requests have passed, the last of them carried out or
/// lost. Answers whether it was killed (else it has come to its end), and how many requests have passed.
async fn dies(
    sides: &Sides,
    operates: Operates,
    request: usize,
    carried_out: bool,
) -> Result<(bool, usize), String> {
    let doors = [&sides.old.door, &sides.new.door];
    let asked = Arc::new(AtomicUsize::new(0));
    let nth = || {
        let asked = Arc::clone(&asked);
        move |_: &[u8]| asked.fetch_add(1, Ordering::AcqRel) + 1 == request
    };
    let order = Order {
        operates: Some(operates),
        ..Order::to_hold(&Config::of_move(sides.operators(NAME)), "", Adapter::Mutex)
    };
    let mut command = order.command().map_err(|error| error.to_string())?;
    // What was caught stays caught until the process is dead, and is lost with it then.
    let ended = if carried_out {
        let mut caught = doors.map(|door| door.hold_reply_to(nth()));
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| error.to_string())?;
        let [old, new] = &mut caught;
        let either = async {
            tokio::select! { held = old.fired() => held, held = new.fired() => held }
        };
        ends_or(&mut child, async { either.await.is_ok() }).await
    } else {
        let mut caught = doors.map(|door| door.park_request(nth()));
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut child = spawned.map_err(|error| error.to_string())?;
        let [old, new] = &mut caught;
        let either = async {
            tokio::select! { held = old.caught() => held, held = new.caught() => held }
        };
        ends_or(&mut child, async { either.await.is_ok() }).await
    }?;
    for door in doors {
        door.sever();
        door.resume();
    }
    match ended {
        None => Ok((true, asked.load(Ordering::Acquire))),
        Some(status) if status.success() => Ok((false, asked.load(Ordering::Acquire))),
        Some(status) => Err(format!("the operator has failed: {status}")),
    }
}

/// Waits for the end of a process, or kills it when it is caught.
async fn ends_or(
    child: &mut Child,
    caught: impl Future<Output = bool>,
) -> Result<Option<ExitStatus>, String> {
    let either = async {
        tokio::select! {
            // One whose request was lost may fail before it is killed.
            biased;
            true = caught => Ok(None),
            // Also where its last request was caught, and its connection was closed behind it.
            ended = child.wait() => ended.map(Some).map_err(|error| error.to_string()),
        }
    };
    let ended = timeout(PATIENCE, either).await.map_err(|_| format!("no end within {PATIENCE:?}"))??;
    if ended.is_none() {
        child.kill().await.map_err(|error| error.to_string())?;
    }
    Ok(ended)
}
