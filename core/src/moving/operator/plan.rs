//! What an operator looks at before a move.

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

/// What is to be known before a move begins, and while it is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MovePlan {
    /// The old side's URL, without secrets.
    pub from: String,
    /// The new side's URL, without secrets.
    pub to: String,
    /// Where the move stands.
    pub status: MoveStatus,
    /// Who takes part. Those of one label and host on both sides are one.
    pub participants: Vec<MoveClient>,
    /// Who was forgotten: connected to a side that is shut, idle or not, and neither participant nor operator.
    /// The new side is open once the move is *done*.
    pub outsiders: Vec<MoveOutsider>,
    /// What is in use on both sides.
    pub in_use: Vec<QueuesInUse>,
    /// The values on both sides.
    pub values: Vec<ValuesInUse>,
    /// What the coordinators promise.
    pub promises: MovePromises,
    /// How many changes of the tokens' side are left; a move needs two.
    pub epochs_left: u16,
    /// What keeps the move from beginning; once it has begun, from its next step; and once it is *done*, from
    /// its new URL and from being finished.
    pub blockers: Vec<MoveBlocker>,
}

/// What each side promises, and what holds in *both*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MovePromises {
    /// The old side.
    pub old: Capabilities,
    /// The new side.
    pub new: Capabilities,
    /// What holds on both: the weaker side decides.
    pub both: Capabilities,
}

/// A participant, as the lists of both sides show it.
///
/// Any client may have written it: what would act on a terminal is escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveClient {
    /// Its label.
    pub label: String,
    /// Its host's name.
    pub host: String,
    /// The version of the library that it was built with.
    pub version: String,
    /// Whether it is connected to the old side.
    pub on_old: bool,
    /// Whether it is connected to the new side. One that is not can take no hold there, and a step waits for
    /// those that it has on the old side.
    pub on_new: bool,
    /// Whether it is a member, whom the steps ask. One that is not yet holds nothing.
    pub member: bool,
}

/// Who is connected to both sides.
pub(super) struct Connected {
    /// Who takes part, in the order of labels.
    pub(super) participants: Vec<MoveClient>,
    /// Who was forgotten: on a side that is shut in the phase.
    outsiders: Vec<MoveOutsider>,
    /// All on the old side but operators, who leave before the move is finished.
    on_old: Vec<MoveOutsider>,
}

impl Move {
    /// Looks at both sides: who takes part, who was forgotten, what is in use, and what is in the way. It
    /// changes nothing. It costs a request for each queue in use, and some more.
    ///
    /// # Errors
    /// As [all methods](Self).
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn plan(&self) -> Result<MovePlan> {
        self.serve("plan", self.plans()).await
    }

    async fn plans(&self) -> Result<MovePlan> {
        loop {
            let (staged, members) = self.staged_and_members().await?;
            let version = staged.as_ref().map(|staged| staged.version);
            let plan = self.plan_at(staged, &members).await?;
            // What is in the way of one stage may belong to the next.
            if self.version().await? == version {
                return Ok(plan);
            }
        }
    }

    /// Looks at both sides behind a stage that was read, or behind none.
    async fn plan_at(&self, staged: Option<Staged>, members: &[MemberRecord]) -> Result<MovePlan> {
        let (old, new) = (self.old.stamped().await?, self.new.stamped().await?);
        let status = self.status_by(staged.as_ref(), members, [&old, &new]);
        let Connected { participants, outsiders, on_old } = self.connected(members, status.phase).await?;
        let (of_old, of_new) = (self.old.values_in_use().await?, self.new.values_in_use().await?);
        let mut blockers = Vec::new();
        // Behind the first phase the gate is shut.
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

    /// Who is connected to both sides in this phase.
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
