//! The state of both sides, as an operator checks it before and during a move.

use serde::Serialize;

use super::super::staged::Staged;
use super::look::ListValues;
use super::{Move, MoveBlocker, MoveOutsider, MoveState, MoveStatus, QueuesInUse, ValuesInUse};
use crate::capabilities::Capabilities;
use crate::decide::moving::obstacles::{TakesPart, Wanted};
use crate::decide::moving::{MovePhase, Stage, Way};
use crate::error::Result;

/// The report of [`Move::plan`]: the state of both sides, and the blockers of the move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MovePlan {
    /// The URL of the old side, without secrets.
    pub from: String,
    /// The URL of the new side, without secrets.
    pub to: String,
    /// The state of the move.
    pub status: MoveStatus,
    /// The participants, ordered by label.
    pub participants: Vec<MoveClient>,
    /// The clients that were not redeployed: connected to a shut side, idle or not, and neither participant
    /// nor operator. The new side is open once the move is *done*.
    pub outsiders: Vec<MoveOutsider>,
    /// The queues that are in use on both sides.
    pub in_use: Vec<QueuesInUse>,
    /// The values on both sides.
    pub values: Vec<ValuesInUse>,
    /// The capabilities of both coordinators.
    pub promises: MovePromises,
    /// The number of times that the tokens can still change sides. A move needs two: one forward, one for a
    /// way back.
    pub epochs_left: u16,
    /// The blockers of the next step: of the start before the move begins, then of the next phase. Once the
    /// move is *done*, the blockers of opening the new side and of [`finish`](Move::finish).
    pub blockers: Vec<MoveBlocker>,
}

/// The capabilities of each side, and those that hold in phase *both*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MovePromises {
    /// The capabilities of the old side.
    pub old: Capabilities,
    /// The capabilities of the new side.
    pub new: Capabilities,
    /// The capabilities in phase *both*: for each, the weaker side decides.
    pub both: Capabilities,
}

/// A participant, as both sides list it.
///
/// Any client may have written these texts, so characters that act on a terminal are escaped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveClient {
    /// The label of the client.
    pub label: String,
    /// The name of its host.
    pub host: String,
    /// The version of Latchwork that the client was built with.
    pub version: String,
    /// Whether the client is connected to the old side.
    pub on_old: bool,
    /// Whether the client is connected to the new side. A client that is not can take no hold there, and a
    /// step waits for its holds on the old side.
    pub on_new: bool,
    /// Whether the client is a member: registered on the old side, and asked at each step. A client that is
    /// not a member yet holds nothing.
    pub member: bool,
    /// Its number, as its records on both sides and its membership have it.
    #[serde(skip)]
    pub(super) client: String,
}

impl MoveClient {
    /// Returns what keeps this participant from taking part on both sides, if anything does.
    pub fn lacks(&self) -> Option<&'static str> {
        self.takes_part().lacks()
    }

    pub(super) fn takes_part(&self) -> TakesPart {
        TakesPart { on_old: self.on_old, on_new: self.on_new, member: self.member }
    }
}

impl Move {
    /// Checks both sides and reports participants, outsiders, queues and values in use, and blockers.
    ///
    /// Writes nothing. It costs one request for each queue in use, and a few more.
    ///
    /// # Errors
    /// As [all methods](Self).
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn plan(&self) -> Result<MovePlan> {
        self.serve("plan", self.plans()).await
    }

    async fn plans(&self) -> Result<MovePlan> {
        loop {
            let staged = self.stage().await?;
            let version = staged.as_ref().map(|staged| staged.version);
            let plan = self.plan_at(staged).await?;
            // Otherwise the blockers may belong to a later stage.
            if self.version().await? == version {
                return Ok(plan);
            }
        }
    }

    /// Plans by a stage that was read before, or by none.
    async fn plan_at(&self, staged: Option<Staged>) -> Result<MovePlan> {
        let looked = self.look(staged, ListValues::Always).await?;
        let [old, new] = &looked.stamps;
        let status = self.status_by(&looked);
        let wanted = match status.phase {
            _ if status.state == MoveState::Finished => None,
            MovePhase::Done => Some(Wanted::Finish),
            _ => Some(Wanted::Step(Way::Forward)),
        };
        let blockers = wanted.map_or_else(Vec::new, |wanted| self.blockers(&looked, wanted));
        let [old_promises, new_promises] = [&self.old, &self.new].map(|side| side.coordinator.capabilities());
        let both = old_promises.of_both(new_promises);
        Ok(MovePlan {
            from: self.old.url.clone(),
            to: self.new.url.clone(),
            participants: looked.participants,
            in_use: self.in_use().await?,
            epochs_left: Stage::epochs_left(old.epoch, new.epoch),
            status,
            outsiders: looked.outsiders,
            promises: MovePromises { old: old_promises, new: new_promises, both },
            blockers,
            values: looked.values.into_iter().flatten().flatten().collect(),
        })
    }
}
