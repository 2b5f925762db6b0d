use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::blocker::NAMED;
use super::late::{is_late, late};
use super::look::{ListValues, Looked, side_word};
use super::{Move, MoveClient, MoveLate};
use crate::decide::moving::evidence::MoveRecord;
use crate::decide::moving::obstacles::{Found, MarkerStanding};
use crate::decide::moving::values::ValuesAt;
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, Result};

/// The progress of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MoveState {
    /// The servers store nothing of it: it has not begun, or nothing is left.
    NotBegun,
    /// It has begun, and is in [`phase`](MoveStatus::phase).
    Begun,
    /// It was given up, but a marker is left: call [`abort`](Move::abort) or [`start`](Move::start).
    GivenUp,
    /// The old side has lost the stage, as the new side's record shows. Call [`plan`](Move::plan), and then
    /// [`repair`](Move::repair).
    Lost,
    /// A side has the marker of another move, or of this one with another URL: compare URLs and name with the
    /// services'.
    Elsewhere,
    /// It is done, but the new side still refuses clients with its URL alone: call [`run`](Move::run).
    Opening,
    /// It is done, and [`finish`](Move::finish) has not begun.
    Done,
    /// It is done, and [`finish`](Move::finish) was interrupted: call it again. The old side already refuses
    /// clients with both URLs.
    Finishing,
    /// It is done, and the old side is retired.
    Finished,
}

/// A side of a move that does not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveAway {
    /// The side.
    #[serde(serialize_with = "side_word")]
    pub side: Side,
    /// The error, as text for people.
    pub why: String,
}

/// The state of a move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct MoveStatus {
    /// The name of the move.
    #[serde(rename = "move")]
    pub name: String,
    /// Its state.
    pub state: MoveState,
    /// Its phase; *old* if it has none.
    #[serde(serialize_with = "phase")]
    pub phase: MovePhase,
    /// The current epoch of the tokens.
    pub epoch: u16,
    /// The side on which values are used.
    #[serde(serialize_with = "values")]
    pub values: ValuesAt,
    /// The time of the change to this phase or side of the values, by the operator's clock (for display).
    #[serde(serialize_with = "unix")]
    pub since: Option<SystemTime>,
    /// The number of members: participants registered on the old side.
    pub members: usize,
    /// The clients that the next step forward waits for: members without an acknowledgement of the phase, and
    /// participants on one side only or without a membership.
    pub waits_for: Vec<MoveLate>,
    /// The side that does not answer. The rest is from the other side. The new side knows no members, and of the
    /// phase only the last one that an operator announced.
    pub away: Option<MoveAway>,
}

/// An event that [`Move::run`] and other steps report.
#[derive(Debug)]
#[non_exhaustive]
pub enum MoveProgress<'a> {
    /// A new phase was written.
    Reached(MovePhase),
    /// The next step waits for members. Reported again when they change.
    Waits(&'a MoveStatus),
    /// The copying of values begins or ends: requests of values wait, or continue.
    ValuesWait,
    /// This number of values was copied to the other side, where they are used now.
    ValuesMoved(usize),
    /// A server did not answer, or a watch was lost. The step is retried until it succeeds or the call is
    /// dropped.
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
    /// Returns the time in this phase, by the clocks of this machine and of the operator that wrote it.
    pub fn age(&self) -> Option<Duration> {
        SystemTime::now().duration_since(self.since?).ok()
    }

    /// Returns the number of clients that the next step asks.
    pub fn asked(&self) -> usize {
        self.members + self.waits_for.iter().filter(|late| late.number == 0).count()
    }

    /// Returns the state in words: *not begun*, *given up*, *lost*, *another move*, *old*, *both*, *new*, *done*,
    /// *finished*.
    pub fn word(&self) -> &'static str {
        match self.state {
            MoveState::NotBegun => "not begun",
            MoveState::GivenUp => "given up",
            MoveState::Lost => "lost",
            MoveState::Elsewhere => "another move",
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
                let (word, phase, waits_for) = (status.phase.word(), status.phase, status.waits_for.len());
                write!(f, "{word} ({phase}) waits for {waits_for} of {} members:", status.asked())?;
                status.waits_for.iter().take(NAMED).try_for_each(|late| {
                    write!(f, " {:?} on {:?}", late.label, late.host)?;
                    late.lacks.map_or(Ok(()), |lacks| write!(f, " ({lacks})"))
                })?;
                match waits_for.saturating_sub(NAMED) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            MoveProgress::ValuesWait => f.write_str("values: the copy to the other side begins or ends"),
            MoveProgress::ValuesMoved(values) => write!(f, "values: {values} were copied to the other side"),
            MoveProgress::Outage(error) => write!(f, "tries again after: {error}"),
        }
    }
}

impl Move {
    /// Reads the state of the move, and the members that the next step waits for. If one side does not answer,
    /// [`away`](MoveStatus::away) names it.
    ///
    /// # Errors
    /// As [all methods](Self).
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn status(&self) -> Result<MoveStatus> {
        self.serve("status", self.reads_status()).await
    }

    async fn reads_status(&self) -> Result<MoveStatus> {
        let staged = match self.stage().await {
            Err(error) if error.may_pass() => return self.status_of_new(error).await,
            staged => staged?,
        };
        match (self.look(staged.clone(), ListValues::Never).await, staged) {
            // The stage is enough, and the new side need not answer.
            (Err(error), Some(staged)) if error.may_pass() => {
                let status = self.status_at(&staged, &self.members().await?, &[]);
                Ok(MoveStatus { away: Some(away(Side::New, &error)), ..status })
            }
            (looked, _) => Ok(self.status_by(&looked?)),
        }
    }

    /// The state by the record alone, because the old side does not answer.
    async fn status_of_new(&self, error: Error) -> Result<MoveStatus> {
        let record = match self.new.stamped().await {
            Ok(stamp) => self.record_in(&stamp),
            Err(_) => None,
        };
        let Some(record) = record.filter(|record| record.to.is_some()) else { return Err(error) };
        let phase = record.reached();
        Ok(MoveStatus {
            name: self.name.to_string(),
            state: if phase == MovePhase::Done { MoveState::Done } else { MoveState::Begun },
            phase,
            epoch: record.epoch,
            values: record.values,
            since: None,
            members: 0,
            waits_for: Vec::new(),
            away: Some(away(Side::Old, &error)),
        })
    }

    /// Reads the stage, and then the members.
    pub(super) async fn staged_and_members(&self) -> Result<(Option<Staged>, Vec<MemberRecord>)> {
        let staged = self.stage().await?;
        Ok((staged, self.members().await?))
    }

    pub(super) fn status_by(&self, looked: &Looked) -> MoveStatus {
        let Some(staged) = &looked.staged else { return self.status_without_stage(&looked.found) };
        let mut status = self.status_at(staged, &looked.members, &looked.participants);
        if status.state == MoveState::Done {
            match looked.found.markers {
                [_, MarkerStanding::Own] => status.state = MoveState::Opening,
                [MarkerStanding::Retired, _] => status.state = MoveState::Finishing,
                _ => {}
            }
        }
        // The stage is found by the name of the move; only the markers show the URLs.
        if looked.found.markers.contains(&MarkerStanding::Namesake) {
            status.state = MoveState::Elsewhere;
        }
        status
    }

    fn status_without_stage(&self, found: &Found) -> MoveStatus {
        let [old, new] = found.epochs;
        let (state, phase, epoch) = match found.markers {
            [MarkerStanding::Retired, _] => (MoveState::Finished, MovePhase::Done, new),
            _ if found.contradiction().is_some() => {
                let reached = found.record.map_or(MovePhase::Old, MoveRecord::reached);
                (MoveState::Lost, reached, if reached.token() == Side::New { new } else { old })
            }
            [MarkerStanding::Namesake | MarkerStanding::Other, _]
            | [_, MarkerStanding::Namesake | MarkerStanding::MovedOn | MarkerStanding::Other] => {
                (MoveState::Elsewhere, MovePhase::Old, old)
            }
            [MarkerStanding::Missing, MarkerStanding::Missing] => (MoveState::NotBegun, MovePhase::Old, old),
            _ => (MoveState::GivenUp, MovePhase::Old, old),
        };
        let (name, values, waits_for) = (self.name.to_string(), phase.token().into(), Vec::new());
        let members = found.members.len();
        MoveStatus { name, state, phase, epoch, values, since: None, members, waits_for, away: None }
    }

    /// The state by the stage and members. A participant that is late and apart is named once.
    pub(super) fn status_at(
        &self,
        staged: &Staged,
        members: &[MemberRecord],
        participants: &[MoveClient],
    ) -> MoveStatus {
        let mut waits_for: Vec<MoveLate> = Vec::new();
        let mut apart: BTreeMap<_, _> = participants.iter().map(|of| (&*of.client, of)).collect();
        apart.retain(|_, of| of.lacks().is_some());
        for member in members {
            let of = apart.get(&*member.client);
            if of.is_some() || is_late(member, staged) {
                waits_for.push(MoveLate { lacks: of.and_then(|of| of.lacks()), ..late(member) });
            }
        }
        waits_for.extend(apart.into_values().filter(|of| !of.member).map(|of| MoveLate {
            number: 0,
            label: of.label.clone(),
            host: of.host.clone(),
            knows_the_move: false,
            lacks: of.lacks(),
        }));
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
            // No phase follows.
            waits_for: match state {
                MoveState::Done => Vec::new(),
                _ => waits_for,
            },
            away: None,
        }
    }
}

fn away(side: Side, error: &Error) -> MoveAway {
    MoveAway { side, why: error.to_string() }
}
