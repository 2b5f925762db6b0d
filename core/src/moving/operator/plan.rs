use serde::Serialize;

use super::super::staged::Staged;
use super::look::ListValues;
use super::{Move, MoveBlocker, MoveOutsider, MoveState, MoveStatus, QueuesInUse, ValuesInUse};
use crate::capabilities::Capabilities;
use crate::decide::moving::obstacles::{TakesPart, Wanted};
use crate::decide::moving::{MovePhase, Stage, Way};
use crate::error::Result;

/// The report of [`Move::plan`]: the state of both sides, and the blockers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MovePlan {
    /// The URL of the old side, without secrets.
    pub from: String,
    /// The URL of the new side, without secrets.
    pub to: String,
    /// The state of the move.
    pub status: MoveStatus,
    /// The participants, by label.
    pub participants: Vec<MoveClient>,
    /// The clients that were not redeployed, idle or not: neither participants nor operators, on a shut side.
    pub outsiders: Vec<MoveOutsider>,
    /// The queues in use on both sides.
    pub in_use: Vec<QueuesInUse>,
    /// The values on both sides.
    pub values: Vec<ValuesInUse>,
    /// The capabilities of both coordinators.
    pub promises: MovePromises,
    /// The number of times that the tokens can still change sides. A move needs two.
    pub epochs_left: u16,
    /// The blockers of the next step; after *done*, of opening the new side and of [`finish`](Move::finish).
    pub blockers: Vec<MoveBlocker>,
}

/// The capabilities of each side, and in phase *both*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MovePromises {
    /// The old side's.
    pub old: Capabilities,
    /// The new side's.
    pub new: Capabilities,
    /// Those in phase *both*: the weaker side decides.
    pub both: Capabilities,
}

/// A participant, as both sides list it.
///
/// Texts of other clients are escaped for terminals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveClient {
    /// Its label.
    pub label: String,
    /// The name of its host.
    pub host: String,
    /// Its version of Latchwork.
    pub version: String,
    /// Whether it is connected to the old side.
    pub on_old: bool,
    /// Whether it is connected to the new side. Otherwise a step waits for its holds on the old side.
    pub on_new: bool,
    /// Whether it is a member, which each step asks. Otherwise it holds nothing yet.
    pub member: bool,
    /// Its number, the same in all its records.
    #[serde(skip)]
    pub(super) client: String,
}

impl MoveClient {
    /// Returns what it lacks to take part on both sides.
    pub fn lacks(&self) -> Option<&'static str> {
        self.takes_part().lacks()
    }

    pub(super) fn takes_part(&self) -> TakesPart {
        TakesPart { on_old: self.on_old, on_new: self.on_new, member: self.member }
    }
}

impl Move {
    /// Reports participants, outsiders, queues and values in use, and blockers.
    ///
    /// Writes nothing. Costs one request for each queue in use, and a few more.
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
