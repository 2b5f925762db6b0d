use std::future::ready;
use std::time::Duration;

use latchwork_core::backend::decide::moving::{MovePhase, Side as Word};
use rand::RngExt;
use rand::seq::{IndexedRandom, SliceRandom};
use tokio::join;

use super::ends::Ends;
use super::fault::{SERVER_FAULTS, ServerFault};
use super::operates::said;
use super::run::Run;
use super::side::{MovingSide, Sides};
use super::there_and_back::Plants;
use super::verdict::Happening;
use crate::failover::{noise, now};

/// The faults of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One random fault in each phase, of the sides in turn; in *done* of the old side.
    OneInEachPhase,
    /// All faults of each side, in each phase, there and back. The last one comes during a step.
    All,
}

const AT_STEPS: usize = 2;

/// Lets eight processes contend while their locks move, and servers fail in each phase. This process must have started the servers,
/// which must keep their data.
///
/// # Errors
/// [Broken rules](super).
pub async fn with_servers_failing(old: MovingSide, new: MovingSide, extent: Extent) -> Result<(), String> {
    let mut run = Run::begin(old, new, None, Plants::NONE.operator).await?;
    let mut faults = SERVER_FAULTS;
    faults.shuffle(&mut run.random);
    let mut at_step = if run.random.random() { Word::Old } else { Word::New };
    let (mut back, mut was_there, mut turn) = (false, extent == Extent::OneInEachPhase, 0);
    let mut at_steps = [0; 2];
    loop {
        let last = match extent {
            Extent::OneInEachPhase => faults[turn % faults.len()],
            Extent::All => {
                let last = *SERVER_FAULTS.choose(&mut run.random).expect("not empty");
                for (side, fault) in all(&mut run).into_iter().filter(|befalls| *befalls != (at_step, last)) {
                    let (happened, ()) = befalls(&run.sides, side, fault, run.phase(), ready(())).await?;
                    goes_on(&mut run, happened).await?;
                }
                last
            }
        };
        let phase = run.phase();
        let (happened, stepped) =
            join!(befalls(&run.sides, at_step, last, phase, ready(())), run.walk.step(back));
        let phase = stepped.map_err(said)?;
        goes_on(&mut run, happened?.0).await?;
        at_steps[usize::from(at_step == Word::New)] += 1;
        back = match phase {
            Some(MovePhase::Done) => break,
            Some(MovePhase::New) => !std::mem::replace(&mut was_there, true),
            None | Some(MovePhase::Old) => false,
            Some(_) => back,
        };
        (at_step, turn) = (at_step.other(), turn + 1);
    }
    let [of_old, of_new] = at_steps;
    println!("{}: during steps the old side failed {of_old} times, the new one {of_new}", run.sides.name());
    if of_old.min(of_new) < AT_STEPS {
        return Err(format!("not each side failed during {AT_STEPS} steps: {at_steps:?}"));
    }
    let befall = match extent {
        Extent::OneInEachPhase => vec![(Word::Old, *faults.choose(&mut run.random).expect("not empty"))],
        Extent::All => all(&mut run),
    };
    when_done(&mut run, befall).await?;
    run.end(Ends { servers_fail: true, finishes: true, ..Ends::default() }).await
}

impl Run {
    fn phase(&self) -> MovePhase {
        self.walk.changes.last().map_or(MovePhase::Old, |change| change.phase)
    }
}

fn all(run: &mut Run) -> Vec<(Word, ServerFault)> {
    let mut all: Vec<_> = [Word::Old, Word::New]
        .into_iter()
        .flat_map(|side| SERVER_FAULTS.map(|fault| (side, fault)))
        .collect();
    all.shuffle(&mut run.random);
    all
}

/// All keys are granted without the old side.
async fn when_done(run: &mut Run, befall: Vec<(Word, ServerFault)>) -> Result<(), String> {
    // A later member must still read the phase from the old side.
    let within = run.sides.recovery() + noise();
    run.walk.has_no_members(within).await?;
    run.fleet.each_goes_on(within).await?;
    for (side, fault) in befall {
        let happened = match side {
            Word::New => befalls(&run.sides, side, fault, MovePhase::Done, ready(())).await?.0,
            Word::Old => {
                // Only an earlier fault of the new side may delay a grant.
                let dead = run.sides.new.recovery();
                let granted = run.fleet.all_are_granted(dead + noise());
                let (happened, granted) = befalls(&run.sides, side, fault, MovePhase::Done, granted).await?;
                granted.map_err(|why| format!("while {}: {why}", happened.what))?;
                Happening { allowed: dead, ..happened }
            }
        };
        goes_on(run, happened).await?;
    }
    // `finish` needs both sides.
    run.walk.has_no_members(within).await
}

async fn befalls<T>(
    sides: &Sides,
    on: Word,
    fault: ServerFault,
    phase: MovePhase,
    meanwhile: impl Future<Output = T>,
) -> Result<(Happening, T), String> {
    let (side, word) = match on {
        Word::Old => (&sides.old, "old"),
        Word::New => (&sides.new, "new"),
    };
    let begun = now();
    let seen = fault.befalls(side, meanwhile).await.map_err(|error| error.to_string())?;
    let over = now();
    let what = format!("the {word} side {fault} in {phase}");
    let allowed = Duration::from_nanos(over - begun) + sides.recovery();
    Ok((Happening { what, begun, over, allowed }, seen))
}

async fn goes_on(run: &mut Run, happened: Happening) -> Result<(), String> {
    let behind = now();
    let granted = run.fleet.all_are_granted(run.sides.recovery() + noise()).await;
    println!(
        "{}: {}: granted again {:.1?} later",
        run.sides.name(),
        happened.what,
        Duration::from_nanos(now() - behind)
    );
    granted.map_err(|why| format!("{}: {why}", happened.what))?;
    run.happenings.push(happened);
    Ok(())
}
