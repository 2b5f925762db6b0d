//! The operator's side of a move: who takes it from phase to phase, and holds nothing.
//!
//! *Protocol.* An operator reads the stage, lists the members, and writes the next stage over the very
//! version that it read, once each of them has acknowledged that one. It begins and ends with the gate
//! ([`gate`]). Before a stage is written whose tokens are of the other side, the stamp of that side says
//! their epoch (MIGRATE-EPOCH-RECORDED). Each request may be the last: whoever comes next reads where the
//! move stands, and goes on.

mod blocker;
mod finish;
mod gate;
mod outsider;
mod plan;
mod queues;
mod repair;
mod side;
mod status;
mod step;
mod values;
mod wait;

use std::fmt;
use std::sync::Arc;

use futures_util::future::join;

pub use self::blocker::MoveBlocker;
pub use self::outsider::MoveOutsider;
pub use self::plan::{MoveClient, MovePlan, MovePromises};
pub use self::queues::QueuesInUse;
use self::side::{OperatorSide, on};
pub use self::status::{MoveLate, MoveProgress, MoveState, MoveStatus};
pub use self::values::ValuesInUse;
use super::place::MovePlace;
use super::staged::Staged;
use crate::config::{Config, MOVING, MoveConfig};
use crate::connect::connect;
use crate::connector::Connector;
use crate::coordinator::Coordinator;
use crate::decide::moving::gate::{Course, GateMarker};
use crate::decide::moving::{MovePhase, Side, Way};
use crate::error::Result;
use crate::registry::reopen;
use crate::seen::OperatorMeter;

/// A move between two coordinators under live locks, as an operator makes it: the clients that
/// [take part](crate::MoveConfig) hold their locks on the old side before it, and on the new side after
/// it, and never is there a moment with two holders.
///
/// *What to do.* [`plan`](Self::plan) says who takes part, who was forgotten, and what is in the way.
/// [`run`](Self::run) makes the whole move; [`start`](Self::start) and [`advance`](Self::advance) make
/// it step by step, and [`abort`](Self::abort) takes it back until it is *done*. [`finish`](Self::finish)
/// removes what is left on the old side, once the services are connected to the new one alone.
///
/// *Why it is safe.* The page `docs/protocol/moving.md` in the repository has the protocol and the
/// argument. All that a move has written stands on the two coordinators: an operator may be stopped between
/// any two of its requests, and another goes on from any machine. Two at once are harmless, since each
/// write names the version that was checked.
///
/// *Cancel safety.* Every method may be dropped at any time, and called again.
///
/// *Errors.* `Unavailable` and `OutcomeUnknown` where one call ends by them: call it again. `Forbidden` names the
/// right that a login lacks, and the cause says on which side. `Closed`; `RuntimeGone`.
///
/// ```
/// use latchwork_core::{Config, Move, MoveConfig, MoveState, memory};
/// # async fn example() -> latchwork_core::Result<()> {
/// let sides = MoveConfig::new(Config::from_url("memory://old")?, Config::from_url("memory://new")?, "to-new");
/// let the_move = Move::connect(&[memory::connector()], &sides).await?;
/// for blocker in the_move.plan().await?.blockers {
///     println!("{blocker}: {}", blocker.next_step());
/// }
/// the_move.run(|progress| println!("{progress}")).await?;
/// the_move.finish().await?;
/// assert_eq!(the_move.status().await?.state, MoveState::Finished);
/// the_move.close().await
/// # }
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example()).unwrap();
/// ```
pub struct Move {
    name: Arc<str>,
    place: MovePlace,
    old: OperatorSide,
    new: OperatorSide,
    seen: OperatorMeter,
}

impl Move {
    /// Connects to both sides as an [operator](Config::as_operator).
    ///
    /// # Errors
    /// As [`connect`](crate::connect), whose cause says on which side; `InvalidArgument` naming `from`,
    /// `to` or `move`.
    ///
    /// # Cancel safety
    /// A dropped connect leaves nothing on the servers beyond leases that run out.
    pub async fn connect(connectors: &[Arc<dyn Connector>], config: &MoveConfig) -> Result<Self> {
        Config::of_move(config.clone()).validate()?;
        let connected =
            async |side, of: &Config| connect(connectors, &of.clone().as_operator()).await.map_err(on(side));
        match join(connected(Side::Old, &config.from), connected(Side::New, &config.to)).await {
            (Ok(old), Ok(new)) => Self::over(old, new, config),
            (Ok(connected), Err(error)) | (Err(error), Ok(connected)) => {
                if let Err(error) = connected.close().await {
                    tracing::debug!(%error, "an operator's client of one side alone is left to its lease");
                }
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// As [`connect`](Self::connect), over clients that are connected to both sides already, each made
    /// [as an operator](Config::as_operator). No I/O.
    ///
    /// # Errors
    /// `InvalidArgument` naming `from`, `to` or `move`; `Misconfigured` for a client that is no operator's.
    pub fn over(old: Coordinator, new: Coordinator, config: &MoveConfig) -> Result<Self> {
        Config::of_move(config.clone()).validate()?;
        let place = MovePlace::of(&config.from.namespace, &config.name)?;
        let old = OperatorSide::new(Side::Old, old, &config.from)?;
        let new = OperatorSide::new(Side::New, new, &config.to)?;
        let seen = OperatorMeter::new(MOVING);
        Ok(Self { name: config.name.as_str().into(), place, old, new, seen })
    }

    /// The name of the move.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Begins the move, or finds that it was begun: shuts both namespaces for plain clients, lists who is
    /// connected, waits until the members know of it, and goes to *both*. If a plain client is connected
    /// it takes back what it wrote. Answers the phase that the move is in; one that is finished is *done*.
    ///
    /// # Errors
    /// `Conflict` naming the [blockers](MoveBlocker); as [all methods](Self).
    pub async fn start(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<MovePhase> {
        let phase = self.walk("start", Way::Forward, Some(MovePhase::BothByOld), progress).await?;
        Ok(phase.unwrap_or(MovePhase::Old))
    }

    /// Takes the next step forward, once all members have acknowledged the phase before; from nothing it is
    /// [`start`](Self::start). Answers the phase that the move is in. One that another operator has taken
    /// meanwhile counts.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn advance(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<MovePhase> {
        Ok(self.walk("advance", Way::Forward, None, progress).await?.unwrap_or(MovePhase::Old))
    }

    /// Makes the whole move, or what is left of it, to *done*.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn run(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<()> {
        self.walk("run", Way::Forward, Some(MovePhase::Done), progress).await.map(drop)
    }

    /// Takes one step back, once all members have acknowledged the phase before. From the first phase it
    /// gives the move up, and both namespaces are open to plain clients again: it answers `None` then.
    ///
    /// # Errors
    /// `Conflict` when the move is *done*, which is final; as [all methods](Self).
    pub async fn step_back(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<Option<MovePhase>> {
        self.walk("step_back", Way::Back, None, progress).await
    }

    /// Takes the move back to its beginning, and gives it up: both namespaces are open to plain clients
    /// again. It does nothing where no move has begun.
    ///
    /// # Errors
    /// `Conflict` also naming those who take part where the old side [may have lost](MoveState::GivenUpOrLost) the
    /// stage; as [`step_back`](Self::step_back).
    pub async fn abort(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<()> {
        self.walk("abort", Way::Back, Some(MovePhase::Old), progress).await.map(drop)
    }

    /// Takes the new side into use again, where it is retired in favour of the old one: for the way back of a
    /// move that was [finished](Self::finish), before its services are deployed with both URLs. Answers
    /// whether it was retired. From here to [`start`](Self::start), which names them, clients with its
    /// URL alone are let in there.
    ///
    /// # Errors
    /// `Conflict` where it is marked otherwise, or retired in favour of another URL; as [all methods](Self).
    pub async fn reopen(&self) -> Result<bool> {
        self.serve("reopen", self.reopens()).await
    }

    async fn reopens(&self) -> Result<bool> {
        let stamped = self.new.stamped().await?;
        let retired = GateMarker { course: Course::Leaves, name: None, url: self.old.url.clone() };
        match &stamped.marker {
            Some(stands) if *stands != retired => Err(self.new.marked_otherwise(Some(stands))),
            _ => reopen(self.new.backend(), &self.new.place).await.map_err(on(Side::New)),
        }
    }

    /// Gives both connections back.
    ///
    /// # Errors
    /// As [`Coordinator::close`](crate::Coordinator::close).
    ///
    /// # Cancel safety
    /// May be called again.
    pub async fn close(&self) -> Result<()> {
        let (old, new) = join(self.old.coordinator.close(), self.new.coordinator.close()).await;
        old.and(new)
    }

    async fn stage(&self) -> Result<Option<Staged>> {
        Staged::read(self.old.backend(), &self.place).await.map_err(on(Side::Old))
    }

    fn side(&self, side: Side) -> &OperatorSide {
        match side {
            Side::Old => &self.old,
            Side::New => &self.new,
        }
    }

    /// The marker of this move on a side.
    fn marker(&self, side: Side) -> GateMarker {
        let (course, url) = match side {
            Side::Old => (Course::Leaves, &self.new.url),
            Side::New => (Course::Arrives, &self.old.url),
        };
        GateMarker { course, name: Some(self.name.to_string()), url: url.clone() }
    }

    /// The marker of an old side to which nobody connects any more.
    fn retired(&self) -> GateMarker {
        GateMarker { name: None, ..self.marker(Side::Old) }
    }
}

impl fmt::Debug for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, from, to) = (&self.name, &self.old.url, &self.new.url);
        f.debug_struct("Move").field("name", name).field("from", from).field("to", to).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
