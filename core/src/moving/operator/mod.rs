//! The operator of a move.
//!
//! `docs/protocol/moving.md` has the steps. A stamp records an epoch before its tokens
//! (MIGRATE-EPOCH-RECORDED). An operator may die after any request: the next one continues from the stage.

mod blocker;
mod finish;
mod gate;
mod late;
mod look;
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
pub use self::late::MoveLate;
pub use self::look::MoveOutsider;
pub use self::plan::{MoveClient, MovePlan, MovePromises};
pub use self::queues::QueuesInUse;
use self::side::{OperatorSide, on};
pub use self::status::{MoveAway, MoveProgress, MoveState, MoveStatus};
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

/// Moves the locks and values of a namespace from one coordinator to another while clients hold locks.
///
/// The clients that [take part](crate::MoveConfig) hold their locks on the old side before the move and on
/// the new side after it. At no moment does a lock have two holders.
///
/// * [`plan`](Self::plan) lists the participants, the clients that were not redeployed, and everything that
///   blocks the move.
/// * [`run`](Self::run) makes the whole move. [`start`](Self::start) and [`advance`](Self::advance) make it
///   step by step.
/// * [`abort`](Self::abort) takes the move back, until it is *done*.
/// * [`finish`](Self::finish) removes the remains on the old side, once all services are connected to the new
///   side alone.
///
/// The two coordinators store the whole state of the move. An operator may stop after any request, and
/// another one can continue from any machine. Two operators at once are harmless, because each write names
/// the version that was checked. The protocol and the safety argument are in `docs/protocol/moving.md` in the
/// repository.
///
/// # Errors
/// Of all methods:
/// * `Unavailable`, `OutcomeUnknown`: a server did not answer; call the method again.
/// * `Forbidden`: the login lacks a right. The error names the right, and its cause names the side.
/// * `Closed`, `RuntimeGone`.
///
/// # Cancel safety
/// Every method may be dropped at any time and called again.
///
/// ```
/// use latchwork_core::{Config, Move, MoveConfig, MoveState, connect, memory};
/// # async fn example() -> latchwork_core::Result<()> {
/// let sides = MoveConfig::new(Config::from_url("memory://old")?, Config::from_url("memory://new")?, "to-new");
/// let service = connect(&[memory::connector()], &Config::of_move(sides.clone())).await?;
/// let the_move = Move::connect(&[memory::connector()], &sides).await?;
/// for blocker in the_move.plan().await?.blockers {
///     println!("{blocker}: {}", blocker.next_step());
/// }
/// the_move.run(|progress| println!("{progress}")).await?;
/// service.close().await?;
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
    /// * `InvalidArgument`: names `from`, `to` or `move`.
    /// * As [`connect`](crate::connect) of each side; the cause names the side.
    ///
    /// # Cancel safety
    /// A dropped call leaves at most leases, which expire.
    pub async fn connect(connectors: &[Arc<dyn Connector>], config: &MoveConfig) -> Result<Self> {
        Config::of_move(config.clone()).validate()?;
        let connected =
            async |side, of: &Config| connect(connectors, &of.clone().as_operator()).await.map_err(on(side));
        match join(connected(Side::Old, &config.from), connected(Side::New, &config.to)).await {
            (Ok(old), Ok(new)) => Self::over(old, new, config),
            (Ok(connected), Err(error)) | (Err(error), Ok(connected)) => {
                if let Err(error) = connected.close().await {
                    tracing::debug!(%error, "could not close the operator's client of one side: its lease expires");
                }
                Err(error)
            }
            (Err(error), Err(_)) => Err(error),
        }
    }

    /// Creates the move from two clients, each connected [as an operator](Config::as_operator). Makes no request.
    /// For [`status`](Self::status) while a side does not answer, give clients that
    /// [connect at their first use](crate::connect_lazy).
    ///
    /// # Errors
    /// * `InvalidArgument`: names `from`, `to` or `move`.
    /// * `Misconfigured`: a client is not an operator's.
    pub fn over(old: Coordinator, new: Coordinator, config: &MoveConfig) -> Result<Self> {
        Config::of_move(config.clone()).validate()?;
        let place = MovePlace::of(&config.from.namespace, &config.name)?;
        let old = OperatorSide::new(Side::Old, old, &config.from)?;
        let new = OperatorSide::new(Side::New, new, &config.to)?;
        let seen = OperatorMeter::new(MOVING);
        Ok(Self { name: config.name.as_str().into(), place, old, new, seen })
    }

    /// Returns the name of the move.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Starts the move and takes it to *both*, or to the later phase that it has reached.
    ///
    /// Refuses plain clients on both namespaces, and waits until all members have acknowledged the first
    /// phase. If a plain client is connected, it undoes its writes and fails. Returns the current phase; a
    /// finished move is *done*.
    ///
    /// # Errors
    /// * `Conflict`: names the first [blocker](MoveBlocker).
    /// * As [all methods](Self).
    pub async fn start(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<MovePhase> {
        let phase = self.walk("start", Way::Forward, Some(MovePhase::BothByOld), progress).await?;
        Ok(phase.unwrap_or(MovePhase::Old))
    }

    /// Takes the next step forward, once all members have acknowledged the current phase.
    ///
    /// Begins a move, as [`start`](Self::start). A step by another operator during the call counts. Returns
    /// the current phase.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn advance(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<MovePhase> {
        Ok(self.walk("advance", Way::Forward, None, progress).await?.unwrap_or(MovePhase::Old))
    }

    /// Takes all remaining steps, until the move is *done*.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn run(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<()> {
        self.walk("run", Way::Forward, Some(MovePhase::Done), progress).await.map(drop)
    }

    /// Takes one step back, once all members have acknowledged the current phase.
    ///
    /// From the first phase it gives the move up and admits plain clients to both namespaces again. Returns
    /// the current phase, or `None` if the move was given up.
    ///
    /// # Errors
    /// * `Conflict`: the move is *done*, which is final.
    /// * As [all methods](Self).
    pub async fn step_back(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<Option<MovePhase>> {
        self.walk("step_back", Way::Back, None, progress).await
    }

    /// Takes the move back to its first phase and gives it up.
    ///
    /// Both namespaces admit plain clients again. Without a move it does nothing.
    ///
    /// # Errors
    /// * `Conflict`: the move is *done*, which is final; or the error names the first [blocker](MoveBlocker).
    /// * As [all methods](Self).
    pub async fn abort(&self, progress: impl FnMut(&MoveProgress<'_>)) -> Result<()> {
        self.walk("abort", Way::Back, Some(MovePhase::Old), progress).await.map(drop)
    }

    /// Puts the new side into use again, if it is retired in favour of the old side.
    ///
    /// This begins the way back after a [finished](Self::finish) move; call it before the services are
    /// deployed with both URLs. Until [`start`](Self::start), clients with this side's URL alone are
    /// admitted. Returns whether the side was retired.
    ///
    /// # Errors
    /// * `Conflict`: the new side is in another move, or is retired in favour of another URL.
    /// * As [all methods](Self).
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

    /// Closes both connections.
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

    fn marker(&self, side: Side) -> GateMarker {
        let (course, url) = match side {
            Side::Old => (Course::Leaves, &self.new.url),
            Side::New => (Course::Arrives, &self.old.url),
        };
        GateMarker { course, name: Some(self.name.to_string()), url: url.clone() }
    }

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
