//! Each server is cut off, stopped and restarted, in each phase.

use std::fmt;
use std::time::Duration;

use latchwork_core::decide::moving::{MovePhase, Side as Word};
use latchwork_servers::ServerError;
use latchwork_servers::proxy::{Direction, Proxy};
use rand::RngExt;
use rand::seq::SliceRandom;
use tokio::time::sleep;

use super::ends::Ends;
use super::run::{Run, said};
use super::side::{MovingSide, Side, Sides};
use super::there_and_back::Plants;
use super::verdict::Happening;
use crate::failover::{NOISE, TTL, now};

/// What becomes of a server for a while. It keeps what it has acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// All connections are closed, and new ones too.
    Cut(Duration),
    /// Nothing passes, and nothing is closed.
    Silent(Duration),
    /// SIGSTOP, and SIGCONT behind it.
    Stopped(Duration),
    /// SIGKILL, and it is started again.
    Restarted,
}

/// Less than a TTL, and more.
const SHORT: Duration = TTL.checked_div(3).expect("no zero");
const LONG: Duration = TTL.saturating_mul(3).checked_div(2).expect("no zero");

const FAULTS: [Fault; 7] = [
    Fault::Restarted,
    Fault::Stopped(LONG),
    Fault::Cut(SHORT),
    Fault::Stopped(SHORT),
    Fault::Cut(LONG),
    Fault::Silent(SHORT),
    Fault::Silent(LONG),
];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Cut(lasts) => write!(f, "cut off for {lasts:?}"),
            Fault::Silent(lasts) => write!(f, "silent for {lasts:?}"),
            Fault::Stopped(lasts) => write!(f, "stopped for {lasts:?}"),
            Fault::Restarted => f.write_str("restarted"),
        }
    }
}

impl Fault {
    async fn befalls(self, side: &Side) -> Result<(), ServerError> {
        let ways = [&side.way, &side.door];
        match self {
            Fault::Cut(lasts) => {
                ways.into_iter().for_each(Proxy::cut);
                sleep(lasts).await;
                ways.into_iter().for_each(Proxy::resume);
            }
            Fault::Silent(lasts) => {
                for direction in [Direction::ToServer, Direction::ToClient] {
                    ways.into_iter().for_each(|way| way.hold(direction));
                }
                sleep(lasts).await;
                ways.into_iter().for_each(Proxy::resume);
            }
            Fault::Stopped(lasts) => {
                side.server.pause().await?;
                sleep(lasts).await;
                side.server.resume().await?;
            }
            Fault::Restarted => {
                side.server.kill().await?;
                side.server.launch().await?;
            }
        }
        Ok(())
    }
}

/// Which faults befall the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One in each phase on the way there, by chance, each side in turn.
    OneInEachPhase,
    /// All of them on each side, in each phase, there and back.
    All,
}

/// Eight processes contend while their locks move, and servers fail in each phase, while the operator asks for
/// the next step. It goes on by itself. The servers must be this process' own, and keep their data. It ends
/// with *done*, and is finished.
///
/// # Errors
/// What was wrong: see [the module](super).
pub async fn with_servers_failing(old: MovingSide, new: MovingSide, extent: Extent) -> Result<(), String> {
    let mut run = Run::begin(old, new, None, Plants::NONE.operator).await?;
    let mut faults = FAULTS;
    faults.shuffle(&mut run.random);
    let mut first = if run.random.random() { Word::Old } else { Word::New };
    let (mut back, mut was_there, mut turn) = (false, extent == Extent::OneInEachPhase, 0);
    loop {
        // All but the last befall a phase that stands.
        let befall: Vec<_> = match extent {
            Extent::OneInEachPhase => vec![(first, faults[turn % faults.len()])],
            Extent::All => {
                [Word::Old, Word::New].into_iter().flat_map(|side| faults.map(|of| (side, of))).collect()
            }
        };
        let (last, before) = befall.split_last().expect("one at least");
        for (side, fault) in before {
            let happened = befalls(&run.sides, *side, *fault, run.phase()).await?;
            goes_on(&mut run, happened).await?;
        }
        let phase = run.phase();
        let (happened, stepped) =
            tokio::join!(befalls(&run.sides, last.0, last.1, phase), run.walk.step(back));
        let phase = stepped.map_err(said)?;
        goes_on(&mut run, happened?).await?;
        back = match phase {
            Some(MovePhase::Done) => break,
            Some(MovePhase::New) => !std::mem::replace(&mut was_there, true),
            None | Some(MovePhase::Old) => false,
            Some(_) => back,
        };
        (first, turn) = (first.other(), turn + 1);
    }
    run.end(Ends { servers_fail: true, finishes: true, ..Ends::default() }).await
}

impl Run {
    /// The phase that its last step came to.
    fn phase(&self) -> MovePhase {
        self.walk.changes.last().map_or(MovePhase::Old, |change| change.phase)
    }
}

async fn befalls(sides: &Sides, on: Word, fault: Fault, phase: MovePhase) -> Result<Happening, String> {
    let (side, word) = match on {
        Word::Old => (&sides.old, "old"),
        Word::New => (&sides.new, "new"),
    };
    let begun = now();
    fault.befalls(side).await.map_err(|error| error.to_string())?;
    let over = now();
    let what = format!("the {word} side {fault} in {phase}");
    let allowed = Duration::from_nanos(over - begun) + sides.recovery();
    Ok(Happening { what, begun, over, allowed })
}

/// All keys are granted again.
async fn goes_on(run: &mut Run, happened: Happening) -> Result<(), String> {
    let behind = now();
    let granted = run.fleet.all_are_granted(run.sides.recovery() + NOISE).await;
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
