//! Processes are killed in each phase, and started anew.

use std::time::Duration;

use latchwork_core::decide::moving::MovePhase;
use rand::RngExt;

use super::ends::Ends;
use super::fleet::{Fleet, PROCESSES};
use super::run::{Run, said};
use super::side::MovingSide;
use super::there_and_back::Plants;
use super::verdict::Happening;
use super::walk::Change;
use crate::failover::{NOISE, now};

/// Eight processes contend while their locks move: in each phase so many of them are killed, a few at a time,
/// and as many started anew; half of them while the operator waits for the dead. `turns`: it goes there, back,
/// and there again; else there alone. It ends with *done*, and is finished.
///
/// # Errors
/// What was wrong: see [the module](super).
pub async fn with_processes_killed(
    old: MovingSide,
    new: MovingSide,
    in_each_phase: usize,
    turns: bool,
) -> Result<(), String> {
    let mut run = Run::begin(old, new, None, Plants::NONE.operator).await?;
    let mut killed = 0;
    let (mut back, mut was_there) = (false, !turns);
    loop {
        killed += in_each_phase;
        let phase = phase_with_kills(&mut run, in_each_phase, back).await?;
        let within = run.sides.recovery() + NOISE;
        run.fleet.all_are_granted(within).await?;
        back = match phase {
            Some(MovePhase::Done) => break,
            Some(MovePhase::New) => !std::mem::replace(&mut was_there, true),
            None | Some(MovePhase::Old) => false,
            Some(_) => back,
        };
    }
    // And those who need the old side no more.
    kill(&mut run.fleet, &mut run.happenings, in_each_phase, &mut run.random, run.sides.recovery()).await?;
    run.fleet.all_are_granted(run.sides.recovery() + NOISE).await?;
    println!("{}: {} processes killed", run.sides.name(), killed + in_each_phase);
    // A step waits for the dead, and for nobody for longer.
    let bound = run.sides.old.recovery() + NOISE;
    let took = |change: &Change| Duration::from_nanos(change.written - change.begun);
    let longest = run.walk.changes.iter().map(took).max().unwrap_or_default();
    println!("{}: a step took at most {longest:.1?} beside the dead, of {bound:.1?}", run.sides.name());
    run.end(Ends { some_die: true, finishes: true, ..Ends::default() }).await
}

/// Kills half in a phase as it stands, and half while the next step waits for them.
async fn phase_with_kills(run: &mut Run, many: usize, back: bool) -> Result<Option<MovePhase>, String> {
    let dead = run.sides.recovery();
    let Run { fleet, walk, random, happenings, .. } = run;
    kill(fleet, happenings, many.div_ceil(2), random, dead).await?;
    let (phase, killed) = tokio::join!(walk.step(back), kill(fleet, happenings, many / 2, random, dead));
    killed?;
    phase.map_err(said)
}

/// Kills so many, a few at a time.
async fn kill(
    fleet: &mut Fleet,
    happenings: &mut Vec<Happening>,
    many: usize,
    random: &mut impl RngExt,
    dead: Duration,
) -> Result<(), String> {
    let mut left = many;
    while left > 0 {
        let at_once = random.random_range(1..=PROCESSES / 2).min(left);
        let begun = now();
        fleet.replace(at_once).await?;
        let what = format!("{at_once} killed at once");
        happenings.push(Happening { what, begun, over: now(), allowed: dead });
        left -= at_once;
    }
    Ok(())
}
