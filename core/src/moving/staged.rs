//! The stage of a move, and its cell on the old side.

use std::time::{Duration, SystemTime};

use super::place::MovePlace;
use crate::contracts::{Backend, CellLife, CellWrite, CellWritten, Expected, Version, VersionedValue};
use crate::decide::moving::evidence::{MoveId, StageRead};
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::{Fields, OWN_VERSION};
use crate::shown::shown;
use crate::token::Token;

const ID: &str = "id";
const PHASE: &str = "phase";
const EPOCH: &str = "epoch";
const VALUES: &str = "values";
/// Values have left the old side once, so that the new side may have copies of them.
const COPIES: &str = "copies";
/// The version that wrote it, for people.
const BY: &str = "version";
/// When it was written first, in seconds since 1970 by its operator's clock, for display. Writing it again keeps it.
const SINCE: &str = "since";

/// A stage that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    /// The identity of the move.
    pub(crate) id: MoveId,
    pub(crate) stage: Stage,
    /// The side of the values.
    pub(crate) values: ValuesAt,
    /// The version of the cell, which an acknowledgement names and the next write expects. It rises from write
    /// to write, also across a deletion of the cell.
    pub(crate) version: Version,
    fields: Fields,
}

impl Staged {
    fn of(cell: &VersionedValue) -> Result<Self> {
        let fields = Fields::read(&cell.value);
        let phase = fields.get(PHASE).and_then(MovePhase::parse);
        let epoch = fields.get(EPOCH).and_then(|epoch| epoch.parse::<u16>().ok());
        let values = fields.get(VALUES).and_then(ValuesAt::parse);
        let id = fields.get(ID).and_then(MoveId::parse);
        match (id, phase, epoch.filter(|epoch| *epoch <= Token::MAX_EPOCH), values) {
            (Some(id), Some(phase), Some(epoch), Some(values)) if values.fits(phase) => {
                Ok(Self { id, stage: Stage { phase, epoch }, values, version: cell.version, fields })
            }
            _ => {
                let found = String::from_utf8_lossy(&cell.value);
                let why = format!(
                    "the stage of the move is stored as {:?}, which this build cannot read: use a newer build",
                    shown(&found, 100)
                );
                Err(Error::new(ErrorKind::Misconfigured, why))
            }
        }
    }

    /// Reads it; `None` if no move has begun, or it was given up.
    pub(crate) async fn read(backend: &dyn Backend, place: &MovePlace) -> Result<Option<Self>> {
        let cell = backend.read_cell(&place.stage).await?;
        cell.as_ref().map(Self::of).transpose()
    }

    /// Writes a stage over the one that was read, or over none, if that is still the current one
    /// (MIGRATE-COMPARE-AND-SET). Returns `None` if it is not. A stage of another move keeps nothing of the
    /// one that was read. `copies`: the new side may have copies, also if the stage that was read does not say so.
    pub(crate) async fn write(
        backend: &dyn Backend,
        place: &MovePlace,
        read: Option<&Self>,
        id: MoveId,
        whole: WholeStage,
        copies: bool,
    ) -> Result<Option<Self>> {
        let WholeStage { stage, values } = whole;
        let fields = read.filter(|read| read.id == id).map(|read| read.fields.clone()).unwrap_or_default();
        let fields = fields.with(ID, id).with(PHASE, stage.phase).with(EPOCH, stage.epoch);
        let mut fields = fields.with(VALUES, values.as_str()).with(BY, OWN_VERSION);
        if values == ValuesAt::LeavingOld || copies {
            fields.set(COPIES, Some("made".to_owned()));
        }
        // A stage that is written again unchanged keeps its age.
        if read.is_none_or(|read| read.stage.phase != stage.phase || read.values != values) {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            fields.set(SINCE, Some(now.as_secs().to_string()));
        }
        let value = Some(fields.text().into_bytes().into());
        let expected = read.map_or(Expected::Absent, |read| Expected::Version(read.version));
        let write = CellWrite { expected, value, life: CellLife::Stays };
        match backend.write_cell(&place.stage, &write).await? {
            CellWritten::Written(version) => Ok(Some(Self { id, stage, values, version, fields })),
            CellWritten::Deleted { .. } | CellWritten::Refused(_) => Ok(None),
        }
    }

    /// Whether the values of the new side are copies of the old one's, made by this move.
    pub(crate) fn has_copies(&self) -> bool {
        self.fields.get(COPIES).is_some()
    }

    /// The whole stage.
    pub(crate) fn whole(&self) -> WholeStage {
        WholeStage { stage: self.stage, values: self.values }
    }

    /// Its identity, version and stage.
    pub(crate) fn read_as(&self) -> StageRead {
        StageRead { id: self.id, version: self.version.number(), stage: self.stage, values: self.values }
    }

    /// When it was written first, by its operator's clock.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let seconds = self.fields.get(SINCE)?.parse().ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }

    /// Deletes it, if it is unchanged since the read. Returns whether it was.
    pub(crate) async fn delete(&self, backend: &dyn Backend, place: &MovePlace) -> Result<bool> {
        let expected = Expected::Version(self.version);
        let deletion = CellWrite { expected, value: None, life: CellLife::Stays };
        let written = backend.write_cell(&place.stage, &deletion).await?;
        Ok(matches!(written, CellWritten::Deleted { was_there: true }))
    }
}
