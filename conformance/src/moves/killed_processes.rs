//! Processes are killed in each phase, and started anew; and some are stopped, and go on.

use std::time::Duration;

use latchwork_core::backend::decide::moving::MovePhase;
use rand::RngExt;
use tokio::time::{Instant, sleep_until};

use super::ends::Ends;
use super::fleet::{Fleet, PROCESSES};
use super::operates::said;
use super::run::Run;
use super::side::MovingSide;
use super::there_and_back::Plants;
use super::verdict::{Happening, judge_steps};
use crate::failover::{TTL, noise, now};

/// So many steps lead to *done*.
const STEPS: usize = 4;

/// Eight processes contend while their locks move: in each phase so many of them are killed, a few at a time,
/// and as many started anew; half of them while the operator waits for the dead. One is stopped then, until the
/// step is over and its leases have ended, and goes on: in each phase if it `turns`, else in one, by chance.
/// `turns`: it goes there, back, and there again; else there alone. It ends with *done*, and is finished.
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
    let stops_at = (!turns).then(|| run.random.random_range(0..STEPS));
    let (mut killed, mut stopped) = (0, 0);
    let (mut back, mut was_there) = (false, !turns);
    loop {
        let stops = stops_at.is_none_or(|step| step == run.walk.changes.len());
        killed += in_each_phase;
        stopped += usize::from(stops);
        let phase = phase_with_kills(&mut run, in_each_phase, back, stops).await?;
        let within = run.sides.recovery() + noise();
        run.fleet.all_are_granted(within).await?;
        back = match phase {
            Some(MovePhase::Done) => break,
            Some(MovePhase::New) => !std::mem::replace(&mut was_there, true),
            None | Some(MovePhase::Old) => false,
            Some(_) => back,
        };
    }
    // And those who need the old side no more.
    kill(&mut run.fleet, &mut run.happenings, in_each_phase, &mut run.random, run.sides.recovery()).await;
    run.fleet.all_are_granted(run.sides.recovery() + noise()).await?;
    println!("{}: {} processes killed, {stopped} stopped", run.sides.name(), killed + in_each_phase);
    if stopped == 0 {
        return Err("no process was stopped".to_owned());
    }
    let (bound, name) = (run.sides.step_bound(), run.sides.name());
    let longest = judge_steps(&run.walk.changes, &run.happenings, bound);
    let longest = longest.map_err(|broken| format!("{name}: {}", broken.why))?;
    println!("{name}: a step came at most {longest:.1?} after the last process that died, of {bound:.1?}");
    run.end(Ends { some_die: true, finishes: true, ..Ends::default() }).await
}

/// Kills half in a phase as it stands, and half while the next step waits for them. `stops`: and for one more,
/// which is stopped.
async fn phase_with_kills(
    run: &mut Run,
    many: usize,
    back: bool,
    stops: bool,
) -> Result<Option<MovePhase>, String> {
    let (dead, bound) = (run.sides.recovery(), run.sides.step_bound());
    let Run { fleet, walk, random, happenings, .. } = run;
    kill(fleet, happenings, many.div_ceil(2), random, dead).await;
    let goes_on = Instant::now() + TTL + bound;
    if stops {
        fleet.stop();
    }
    let (phase, ()) = tokio::join!(walk.step(back), kill(fleet, happenings, many / 2, random, dead));
    if stops {
        // It has lost by then whatever it had.
        sleep_until(goes_on).await;
        let over = now();
        let begun = fleet.cont(dead + noise()).await?;
        happenings.push(Happening { what: "one stopped".to_owned(), begun, over, allowed: dead });
    }
    phase.map_err(said)
}

/// Kills so many, a few at a time.
async fn kill(
    fleet: &mut Fleet,
    happenings: &mut Vec<Happening>,
    many: usize,
    random: &mut impl RngExt,
    dead: Duration,
) {
    let mut left = many;
    while left > 0 {
        let at_once = random.random_range(1..=PROCESSES / 2).min(left);
        let begun = now();
        fleet.replace(at_once).await;
        let what = format!("{at_once} killed at once");
        happenings.push(Happening { what, begun, over: now(), allowed: dead });
        left -= at_once;
    }
}
