//! The comparison of the two sides: the stage on the old side, and the record on the new side.
//!
//! *The invariant.* The record announces each phase, over the version of the replaced stage, before the phase
//! is written (MIGRATE-RECORD-FIRST). So a side that has lost data, or is not a side of this move,
//! contradicts the other one. Then a participant acquires and acknowledges nothing (MIGRATE-SAME-SIDES).

use std::fmt;

use super::values::{ValuesAt, WholeStage};
use super::{MovePhase, Stage};

/// The identity of a move: a random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MoveId(u128);

impl MoveId {
    /// Creates the identity.
    pub const fn new(number: u128) -> Self {
        Self(number)
    }

    /// Parses an identity.
    pub fn parse(text: &str) -> Option<Self> {
        let is_own = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_own.then(|| u128::from_str_radix(text, 16).ok().map(Self)).flatten()
    }
}

impl fmt::Display for MoveId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A stage, as read on the old side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageRead {
    /// The identity of the move.
    pub id: MoveId,
    /// The version number of the cell, which each write raises.
    pub version: u64,
    /// The stage.
    pub stage: Stage,
    /// The side of the values.
    pub values: ValuesAt,
}

impl StageRead {
    /// Returns stage and values together.
    pub fn whole(self) -> WholeStage {
        WholeStage { stage: self.stage, values: self.values }
    }
}

/// The record of a move, in the stamp of its new side: the last announced change of the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MoveRecord {
    /// The identity of the move.
    pub id: MoveId,
    /// The phase of the replaced stage.
    pub from: MovePhase,
    /// The next phase; `None` if the move is given up.
    pub to: Option<MovePhase>,
    /// The side of the values in the next stage.
    pub values: ValuesAt,
    /// The version number of the replaced stage.
    pub over: u64,
    /// The epoch of the next stage.
    pub epoch: u16,
}

impl MoveRecord {
    /// Returns the first record of a move.
    pub fn prepared(id: MoveId, epoch: u16) -> Self {
        let from = MovePhase::Old;
        Self { id, from, to: Some(from), values: ValuesAt::Old, over: 0, epoch }
    }

    /// Returns the announced stage, with the replaced phase if the move is given up.
    pub fn whole(self) -> WholeStage {
        let phase = self.to.unwrap_or(self.from);
        WholeStage { stage: Stage { phase, epoch: self.epoch }, values: self.values }
    }

    /// Returns the latest phase that clients may know.
    pub fn reached(self) -> MovePhase {
        self.to.map_or(MovePhase::Old, |to| to.max(self.from))
    }

    /// Returns the phase of a restored stage: of the two phases, the latest one that has the values on this
    /// side.
    pub fn restores(self) -> MovePhase {
        let phases = [Some(self.from), self.to].into_iter().flatten();
        phases.filter(|phase| phase.token() == self.values.side()).max().unwrap_or(MovePhase::Old)
    }

    /// Returns whether the move has begun and has not ended.
    pub fn is_under_way(self) -> bool {
        !matches!(self.to, None | Some(MovePhase::Old | MovePhase::Done))
    }

    /// Returns whether the announced change of this stage was not made yet. It is completed before any other
    /// change (MIGRATE-RECORD-COMPLETED), so that clients find the stage that they expect if the old side
    /// loses the last one.
    pub fn is_pending(self, read: StageRead) -> bool {
        let is_made = self.to == Some(read.stage.phase) && self.values == read.values;
        self.id == read.id && self.over == read.version && !is_made
    }
}

/// A contradiction between the sides of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Contradiction {
    /// The old side has no stage, but the record is of a move under way.
    StageLost,
    /// The stage is older than the record, or than one that a client has read.
    StageWentBack,
    /// The new side has lost the record of this move, or is another place.
    RecordLost,
    /// The record is older than the stage.
    RecordWentBack,
}

impl Contradiction {
    const ALL: [Self; 4] = [Self::StageLost, Self::StageWentBack, Self::RecordLost, Self::RecordWentBack];

    /// Returns the word that a member reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Contradiction::StageLost => "stage-lost",
            Contradiction::StageWentBack => "stage-went-back",
            Contradiction::RecordLost => "record-lost",
            Contradiction::RecordWentBack => "record-went-back",
        }
    }

    /// Parses the word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|found| found.as_str() == text)
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Contradiction::StageLost => {
                "the old side has no stage of the move, but the new side has the record of it: the old side has lost data"
            }
            Contradiction::StageWentBack => {
                "the old side shows an earlier stage of the move than was written: it has lost data"
            }
            Contradiction::RecordLost => {
                "the old side has a stage of the move, but the new side has no record of it: this `to` is another place than \
                 the operator's, or the new side has lost data"
            }
            Contradiction::RecordWentBack => {
                "the new side shows an earlier record of the move than was written: it has lost data"
            }
        })
    }
}

/// The decision of a participant after its reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MoveVerdict {
    /// No move has begun, or it was given up: it acts as in *Old*.
    NoMove,
    /// The move is done.
    Done,
    /// It acts by the stage, and acknowledges it.
    Follows,
    /// It acts as in *Old*, and acknowledges nothing: the new side is not prepared.
    Awaits,
    /// It acquires nothing, and acknowledges nothing.
    Stops(Contradiction),
}

/// Judges a stage, and then the record of this move.
///
/// # Errors
/// The contradiction.
pub fn agree(stage: Option<StageRead>, record: Option<MoveRecord>) -> Result<(), Contradiction> {
    let (read, record) = match (stage, record) {
        (None, Some(record)) if record.is_under_way() => return Err(Contradiction::StageLost),
        (None, _) => return Ok(()),
        (Some(read), record) => (read, record),
    };
    let phase = read.stage.phase;
    match record {
        // The stage is from an earlier try, or a repair replaces it.
        Some(record) if record.id != read.id && record.reached() != MovePhase::Old => {
            Err(Contradiction::StageWentBack)
        }
        // The operator writes the record after the first stage.
        None if phase == MovePhase::Old => Ok(()),
        Some(record) if record.id != read.id && phase == MovePhase::Old => Ok(()),
        None => Err(Contradiction::RecordLost),
        Some(record) if record.id != read.id => Err(Contradiction::RecordLost),
        Some(record) if read.version < record.over => Err(Contradiction::StageWentBack),
        Some(record) if read.version == record.over && phase != record.from => {
            Err(Contradiction::StageWentBack)
        }
        Some(record) if phase != record.from && Some(phase) != record.to => {
            Err(Contradiction::RecordWentBack)
        }
        Some(_) => Ok(()),
    }
}

/// Judges for a participant by the known stage, the stage that it has read, and then the record on its own
/// new side.
pub fn judge(known: Option<StageRead>, read: Option<StageRead>, record: Option<MoveRecord>) -> MoveVerdict {
    if known.is_some_and(|known| known.stage.phase == MovePhase::Done) {
        return MoveVerdict::Done;
    }
    if let (Some(known), Some(read)) = (known, read)
        && known.id == read.id
        && !continues(known, read)
    {
        return MoveVerdict::Stops(Contradiction::StageWentBack);
    }
    if let Err(found) = agree(read, record) {
        return MoveVerdict::Stops(found);
    }
    match (read, record) {
        (None, Some(MoveRecord { to: Some(MovePhase::Done), .. })) => MoveVerdict::Done,
        (None, _) => MoveVerdict::NoMove,
        (Some(read), Some(record)) if record.id == read.id && record.to.is_some() => MoveVerdict::Follows,
        (Some(_), _) => MoveVerdict::Awaits,
    }
}

/// Returns whether a stage is the known one, or a later one of the same move.
pub fn continues(known: StageRead, read: StageRead) -> bool {
    read == known || read.version > known.version
}

#[cfg(test)]
mod tests;
