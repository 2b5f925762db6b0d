use latchwork_core::backend::decide::moving::MovePhase;
use latchwork_core::{Move, MoveState};
use rand::RngExt;

use super::dying_operator::dies;
use super::ends::Ends;
use super::operates::{Operates, another, said};
use super::run::Run;
use super::side::MovingSide;
use super::there_and_back::Plants;
use super::walk::Change;
use crate::failover::{TTL, noise, now};

/// The requests of the kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// This many random requests.
    Some(usize),
    /// All from a random start, until an operator succeeds.
    Each {
        /// Requests between two kills.
        apart: usize,
    },
}

/// Lets eight processes contend while operators, each a process, are killed when their n-th request is executed or lost, and others
/// continue or turn back: to *new* and back, then to *done* and in `finish`.
///
/// # Errors
/// [Broken rules](super).
pub async fn with_operators_killed(old: MovingSide, new: MovingSide, points: Points) -> Result<(), String> {
    let mut run = Run::begin(old, new, None, Plants::NONE.operator).await?;
    // The doors count only operators that are killed.
    run.walk.operator.close().await.map_err(said)?;
    let works = [Operates::ToNew, Operates::Abort];
    let (mut takes, mut killed) = ([0; 2], [0; 2]);
    for (work, operates) in works.into_iter().enumerate() {
        takes[work] = killed_once(&mut run, operates, usize::MAX, true).await?.1;
    }
    let first = match points {
        Points::Some(_) => 1,
        Points::Each { apart } => run.random.random_range(1..=apart),
    };
    let mut turn = 0;
    let mut goes = [true; 2];
    while goes.contains(&true) {
        turn += 1;
        for carried_out in [true, false] {
            for (work, operates) in works.into_iter().enumerate() {
                let request = match points {
                    // Some steps wait for members, with more requests.
                    Points::Some(_) => run.random.random_range(1..=(takes[work] * 3).div_ceil(4)),
                    Points::Each { apart } => first + (turn - 1) * apart,
                };
                let (was_killed, _) = killed_once(&mut run, operates, request, carried_out).await?;
                killed[work] += usize::from(was_killed);
                goes[work] &= match points {
                    Points::Some(most) => turn < most,
                    Points::Each { .. } => was_killed,
                };
            }
        }
    }
    let of_runs = killed_to_done(&mut run, takes[0]).await?;
    let name = run.sides.name();
    println!("{name}: {} operators killed on the way there, which takes {} requests", killed[0], takes[0]);
    println!("{name}: {} on the way back, which takes {}; {of_runs} of whole runs", killed[1], takes[1]);
    if killed.contains(&0) || of_runs == 0 {
        return Err(format!("a work had no killed operator: {killed:?}, {of_runs}"));
    }
    run.walk.operator = another(&run.sides).await?;
    run.end(Ends { operators_die: true, finishes: true, ..Ends::default() }).await
}

/// The first dies before *new*, the second between there and *done* or never.
async fn killed_to_done(run: &mut Run, to_new: usize) -> Result<usize, String> {
    let begun = now();
    let first = run.random.random_range(1..=to_new / 2);
    let second = run.random.random_range(1..=to_new + 4 - first);
    let mut killed = 0;
    for at in [first, second] {
        let carried_out = run.random.random();
        let (was_killed, _) = dies(&run.sides, Operates::Run, at, carried_out).await?;
        println!("{}: a whole run, to be killed at {at}: {was_killed}", run.sides.name());
        killed += usize::from(was_killed);
    }
    another_goes_on(run, Operates::Run, false, begun).await?;
    Ok(killed)
}

/// Returns whether the first died before its end, and its requests.
async fn killed_once(
    run: &mut Run,
    operates: Operates,
    request: usize,
    carried_out: bool,
) -> Result<(bool, usize), String> {
    let begun = now();
    let (was_killed, sent) = dies(&run.sides, operates, request, carried_out).await?;
    let turns_back = was_killed && run.random.random_bool(0.3);
    another_goes_on(run, operates, turns_back, begun).await?;
    Ok((was_killed, sent))
}

async fn another_goes_on(
    run: &mut Run,
    operates: Operates,
    turns_back: bool,
    begun: u64,
) -> Result<(), String> {
    let written = now();
    let another = another(&run.sides).await?;
    if turns_back {
        Operates::Abort.by(&another).await.map_err(said)?;
    }
    operates.by(&another).await.map_err(said)?;
    let phase = stands(&another, operates).await?;
    another.close().await.map_err(said)?;
    run.walk.changes.push(Change { what: "an operator and another", phase, begun, written, known: now() });
    run.fleet.all_are_granted(TTL + noise()).await
}

async fn stands(operator: &Move, behind: Operates) -> Result<MovePhase, String> {
    let status = operator.status().await.map_err(said)?;
    let expected = match behind {
        Operates::ToNew => (MoveState::Begun, MovePhase::New),
        Operates::Abort => (MoveState::NotBegun, MovePhase::Old),
        Operates::Run => (MoveState::Done, MovePhase::Done),
        Operates::Finish => (MoveState::Finished, MovePhase::Done),
    };
    match (status.state, status.phase) == expected {
        true => Ok(status.phase),
        false => Err(format!("after {behind:?} the move is at {status:?}")),
    }
}
