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

/// To *done*.
const STEPS: usize = 4;

/// Lets eight processes contend while their locks move. In each phase, `in_each_phase` are killed, half of
/// them while the operator waits for dead ones. One is stopped until its leases have ended: in each phase if
/// the move `turns` (there, back, there), otherwise in a random one.
///
/// # Errors
/// [Broken rules](super).
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
    // These processes no longer need the old side.
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

/// Half while the next step waits, with `stops` also for a stopped process.
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
        // It has lost all holds.
        sleep_until(goes_on).await;
        let over = now();
        let begun = fleet.cont(dead + noise()).await?;
        happenings.push(Happening { what: "one stopped".to_owned(), begun, over, allowed: dead });
    }
    phase.map_err(said)
}

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
