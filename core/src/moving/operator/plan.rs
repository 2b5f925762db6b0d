//! The state of both sides, as an operator checks it before and during a move.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::repair::shut_in;
use super::{Move, MoveBlocker, MoveOutsider, MoveState, MoveStatus, QueuesInUse, ValuesInUse};
use crate::capabilities::Capabilities;
use crate::decide::moving::gate::Who;
use crate::decide::moving::{MovePhase, Side, Stage};
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
    /// The participants. Clients with the same label and host are one entry.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
}

/// The clients that are connected to both sides.
pub(super) struct Connected {
    /// The participants, ordered by label.
    pub(super) participants: Vec<MoveClient>,
    /// Outsiders on a side that is shut in this phase.
    outsiders: Vec<MoveOutsider>,
    /// All clients of the old side except operators. They must leave before the move is finished.
    on_old: Vec<MoveOutsider>,
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
            let (staged, members) = self.staged_and_members().await?;
            let version = staged.as_ref().map(|staged| staged.version);
            let plan = self.plan_at(staged, &members).await?;
            // Otherwise the blockers may belong to a later stage.
            if self.version().await? == version {
                return Ok(plan);
            }
        }
    }

    /// Plans by a stage that was read before, or by none.
    async fn plan_at(&self, staged: Option<Staged>, members: &[MemberRecord]) -> Result<MovePlan> {
        let (old, new) = (self.old.stamped().await?, self.new.stamped().await?);
        let status = self.status_by(staged.as_ref(), members, [&old, &new]);
        let Connected { participants, outsiders, on_old } = self.connected(members, status.phase).await?;
        let (of_old, of_new) = (self.old.values_in_use().await?, self.new.values_in_use().await?);
        let mut blockers = Vec::new();
        // After the first phase the gate is shut.
        if let Some(staged) = staged.as_ref().filter(|staged| staged.stage.phase != MovePhase::Old) {
            blockers = self.blocked_behind(staged.stage, [&old, &new]);
            let in_the_way = match staged.stage.phase {
                MovePhase::Done => {
                    Some(on_old).filter(|left| !left.is_empty()).map(MoveBlocker::StillConnected)
                }
                _ => Some(outsiders.clone()).filter(|of| !of.is_empty()).map(MoveBlocker::Outsiders),
            };
            blockers.extend(in_the_way);
            let from = staged.whole().values.side();
            if staged.whole().values_leave() {
                let used = if from == Side::Old { &of_old } else { &of_new };
                blockers.extend(self.values_stay(from, used));
            }
        }
        if status.phase == MovePhase::Old {
            blockers = self.blocked_by([&old, &new]);
            if !staged.as_ref().is_some_and(Staged::has_copies) {
                blockers.extend(self.blocked_by_values(&of_old, &of_new));
            }
            if !outsiders.is_empty() {
                blockers.insert(0, MoveBlocker::Outsiders(outsiders.clone()));
            }
            if status.state == MoveState::GivenUpOrLost && !participants.is_empty() {
                blockers.insert(0, MoveBlocker::StageLost(participants.clone()));
            }
        }
        let [old_promises, new_promises] = [&self.old, &self.new].map(|side| side.coordinator.capabilities());
        let both = old_promises.of_both(new_promises);
        let promises = MovePromises { old: old_promises, new: new_promises, both };
        Ok(MovePlan {
            values: of_old.into_iter().chain(of_new).collect(),
            from: self.old.url.clone(),
            to: self.new.url.clone(),
            participants,
            in_use: self.in_use().await?,
            epochs_left: Stage::epochs_left(old.epoch, new.epoch),
            status,
            outsiders,
            promises,
            blockers,
        })
    }

    /// Lists the clients of both sides in this phase.
    pub(super) async fn connected(&self, members: &[MemberRecord], phase: MovePhase) -> Result<Connected> {
        let mut found: BTreeMap<(String, String), MoveClient> = BTreeMap::new();
        let (mut outsiders, mut on_old) = (Vec::new(), Vec::new());
        for side in [&self.old, &self.new] {
            let clients = side.clients().await?;
            for record in clients.iter().filter(|record| record.who() == Who::Participant(&self.name)) {
                let of = entry(&mut found, &record.label, &record.host);
                of.version.clone_from(&record.version);
                match side.side {
                    Side::Old => of.on_old = true,
                    Side::New => of.on_new = true,
                }
            }
            if side.side == Side::Old {
                on_old.extend(side.outside(&self.retired(), clients.clone()));
            }
            if shut_in(phase).contains(&side.side) {
                outsiders.extend(side.outside(&self.marker(side.side), clients));
            }
        }
        for member in members {
            entry(&mut found, &member.label, &member.host).member = true;
        }
        Ok(Connected { participants: found.into_values().collect(), outsiders, on_old })
    }
}

fn entry<'a>(
    found: &'a mut BTreeMap<(String, String), MoveClient>,
    label: &str,
    host: &str,
) -> &'a mut MoveClient {
    found.entry((label.to_owned(), host.to_owned())).or_insert_with(|| MoveClient {
        label: label.to_owned(),
        host: host.to_owned(),
        version: String::new(),
        on_old: false,
        on_new: false,
        member: false,
    })
}
