//! Where a move stands, and for whom it waits.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::Move;
use crate::decide::moving::gate::GateMarker;
use crate::decide::moving::values::ValuesAt;
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, Result};
use crate::registry::Stamped;

/// How far a move is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MoveState {
    /// Nothing of it stands on the servers, or nothing any more.
    NotBegun,
    /// It is under way: its [phase](MoveStatus::phase) says where.
    Begun,
    /// It was given up, and a marker stands still: call [`abort`](Move::abort) or
    /// [`start`](Move::start).
    GivenUp,
    /// As [`GivenUp`](Self::GivenUp), or the old side has lost the stage: the new side gives tokens of a later
    /// epoch. Participants may be in a later phase then, and go by that. While some are registered
    /// [`abort`](Move::abort) is refused, and [`plan`](Move::plan) names them.
    GivenUpOrLost,
    /// It is done, and the new side is shut still for clients with its URL alone: call [`run`](Move::run),
    /// which opens it.
    Opening,
    /// It is done, and the old side has what [`finish`](Move::finish) removes.
    Done,
    /// It is done, and [`finish`](Move::finish) was begun: call it again. The old side refuses clients with
    /// both URLs already.
    Finishing,
    /// It is done, and nobody connects to the old side any more.
    Finished,
}

/// Where a move stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveStatus {
    /// Its name.
    #[serde(rename = "move")]
    pub name: String,
    /// How far it is.
    pub state: MoveState,
    /// Its phase; *old* where there is none.
    #[serde(serialize_with = "phase")]
    pub phase: MovePhase,
    /// The epoch of the tokens that are given now.
    pub epoch: u16,
    /// Where the values are.
    #[serde(serialize_with = "values")]
    pub values: ValuesAt,
    /// Since when it is in this phase, and the values where they are, by the clock of the operator who wrote it. For people.
    #[serde(serialize_with = "unix")]
    pub since: Option<SystemTime>,
    /// How many members it has: participants that are registered on the old side.
    pub members: usize,
    /// Those that have not acknowledged the phase yet: the next step waits for them.
    pub waits_for: Vec<MoveLate>,
}

/// A member that has not acknowledged the phase yet.
///
/// Any client may have written its label and host: what would act on a terminal is escaped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveLate {
    /// Its number on the old side.
    pub number: u64,
    /// Its label.
    pub label: String,
    /// Its host's name; empty if it does not say so.
    pub host: String,
    /// Whether it has acknowledged an earlier phase.
    pub knows_the_move: bool,
}

/// What a walk of an operator tells while it goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum MoveProgress<'a> {
    /// A phase was written.
    Reached(MovePhase),
    /// The next step waits for members. It is told anew when those have changed.
    Waits(&'a MoveStatus),
    /// Values are to be copied, or are not any more: requests of them wait from here on, or go on.
    ValuesWait,
    /// So many values have been copied to the other side, where they are used from now on.
    ValuesMoved(usize),
    /// A server did not answer, or what the operator waits by was lost with its lease. It is asked again, until it
    /// answers or the call is dropped.
    Outage(&'a Error),
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn phase<S: Serializer>(phase: &MovePhase, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    phase.as_str().serialize(serializer)
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference to the field")]
fn values<S: Serializer>(values: &ValuesAt, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    values.as_str().serialize(serializer)
}

#[allow(clippy::ref_option, reason = "serde passes a reference to the field")]
fn unix<S: Serializer>(since: &Option<SystemTime>, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    since
        .and_then(|since| since.duration_since(SystemTime::UNIX_EPOCH).ok())
        .map(|since| since.as_secs())
        .serialize(serializer)
}

impl MoveStatus {
    /// For how long it is in this phase, by the clocks of this machine and of the operator who wrote it.
    pub fn age(&self) -> Option<Duration> {
        SystemTime::now().duration_since(self.since?).ok()
    }

    /// The word for people: *not begun*, *given up*, *given up, or lost*, *old*, *both*, *new*, *done*, *finished*.
    pub fn word(&self) -> &'static str {
        match self.state {
            MoveState::NotBegun => "not begun",
            MoveState::GivenUp => "given up",
            MoveState::GivenUpOrLost => "given up, or lost",
            MoveState::Finished => "finished",
            MoveState::Begun | MoveState::Opening | MoveState::Done | MoveState::Finishing => {
                self.phase.word()
            }
        }
    }
}

impl fmt::Display for MoveProgress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveProgress::Reached(phase) => write!(f, "{} ({phase})", phase.word()),
            MoveProgress::Waits(status) => {
                write!(
                    f,
                    "{} ({}) waits for {}:",
                    status.phase.word(),
                    status.phase,
                    status.waits_for.len()
                )?;
                status.waits_for.iter().try_for_each(|late| write!(f, " {:?} on {:?}", late.label, late.host))
            }
            MoveProgress::ValuesWait => f.write_str("values: their side changes"),
            MoveProgress::ValuesMoved(values) => write!(f, "values: {values} have moved"),
            MoveProgress::Outage(error) => write!(f, "asks again: {error}"),
        }
    }
}

impl Move {
    /// Where the move stands, and for whom the next step waits.
    ///
    /// # Errors
    /// As [all methods](Self).
    ///
    /// # Cancel safety
    /// Reads only.
    pub async fn status(&self) -> Result<MoveStatus> {
        self.serve("status", self.reads_status()).await
    }

    async fn reads_status(&self) -> Result<MoveStatus> {
        let (staged, members) = self.staged_and_members().await?;
        // Until it is done the stage says all, also while the new side does not answer.
        if let Some(staged) = staged.as_ref().filter(|staged| staged.stage.phase != MovePhase::Done) {
            return Ok(self.status_at(staged, &members));
        }
        let (old, new) = (self.old.stamped().await?, self.new.stamped().await?);
        Ok(self.status_by(staged.as_ref(), &members, [&old, &new]))
    }

    /// The stage and the members, which are read behind it.
    pub(super) async fn staged_and_members(&self) -> Result<(Option<Staged>, Vec<MemberRecord>)> {
        let staged = self.stage().await?;
        Ok((staged, self.members().await?))
    }

    /// Where it stands by its stage and its markers.
    pub(super) fn status_by(
        &self,
        staged: Option<&Staged>,
        members: &[MemberRecord],
        stamps: [&Stamped; 2],
    ) -> MoveStatus {
        let Some(staged) = staged else { return self.status_without_stage(stamps, members.len()) };
        let mut status = self.status_at(staged, members);
        let [old, new] = stamps;
        if status.state == MoveState::Done {
            if new.marker == Some(self.marker(Side::New)) {
                status.state = MoveState::Opening;
            } else if old.marker == Some(self.retired()) {
                status.state = MoveState::Finishing;
            }
        }
        status
    }

    /// Whether the old side may have lost the stage, where it has none. Whoever takes the tokens back leaves a
    /// higher epoch there first (MIGRATE-EPOCH-RECORDED); a new side that was used before may have one too.
    pub(super) fn may_be_lost(&self, [old, new]: [&Stamped; 2]) -> bool {
        new.marker == Some(self.marker(Side::New)) && new.epoch > old.epoch
    }

    fn status_without_stage(&self, [old, new]: [&Stamped; 2], members: usize) -> MoveStatus {
        let stands = |side, marker: &Option<GateMarker>| *marker == Some(self.marker(side));
        let (state, phase, epoch) = if old.marker == Some(self.retired()) {
            (MoveState::Finished, MovePhase::Done, new.epoch)
        } else if self.may_be_lost([old, new]) {
            (MoveState::GivenUpOrLost, MovePhase::Old, old.epoch)
        } else if stands(Side::Old, &old.marker) || stands(Side::New, &new.marker) {
            (MoveState::GivenUp, MovePhase::Old, old.epoch)
        } else {
            (MoveState::NotBegun, MovePhase::Old, old.epoch)
        };
        let (name, values, waits_for) = (self.name.to_string(), phase.token().into(), Vec::new());
        MoveStatus { name, state, phase, epoch, values, since: None, members, waits_for }
    }

    /// Where it stands by what was read.
    pub(super) fn status_at(&self, staged: &Staged, members: &[MemberRecord]) -> MoveStatus {
        let late = |member: &MemberRecord| MoveLate {
            number: member.number,
            label: member.label.clone(),
            host: member.host.clone(),
            knows_the_move: member.acknowledged.is_some(),
        };
        let state = match staged.stage.phase {
            MovePhase::Done => MoveState::Done,
            _ => MoveState::Begun,
        };
        MoveStatus {
            name: self.name.to_string(),
            state,
            phase: staged.stage.phase,
            epoch: staged.stage.epoch,
            values: staged.values,
            since: staged.since(),
            members: members.len(),
            // None follows on the last.
            waits_for: match state {
                MoveState::Done => Vec::new(),
                _ => members.iter().filter(|member| is_late(member, staged)).map(late).collect(),
            },
        }
    }
}

/// Whether a member has not acknowledged a stage yet.
pub(super) fn is_late(member: &MemberRecord, staged: &Staged) -> bool {
    member.acknowledged != Some(staged.version.number())
}
