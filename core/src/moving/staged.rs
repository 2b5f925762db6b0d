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
/// Values have left the old side once: the new side may have copies.
const COPIES: &str = "copies";
const BY: &str = "version";
/// The time of the first write, in seconds since 1970, for display.
const SINCE: &str = "since";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Staged {
    pub(crate) id: MoveId,
    pub(crate) stage: Stage,
    pub(crate) values: ValuesAt,
    /// The version of the cell, which acknowledgements and the next write name. It rises with each write,
    /// also across a deletion.
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

    /// Reads the stage; `None` if no move has begun, or it was given up.
    pub(crate) async fn read(backend: &dyn Backend, place: &MovePlace) -> Result<Option<Self>> {
        let cell = backend.read_cell(&place.stage).await?;
        cell.as_ref().map(Self::of).transpose()
    }

    /// Writes a stage over the one that was read, or over none (MIGRATE-COMPARE-AND-SET); `None` if that is
    /// not the current one. `copies`: the new side may have copies, even if the read stage does not say so.
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
        // A repeated stage keeps its age.
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

    /// Whether the new side's values are copies that this move made.
    pub(crate) fn has_copies(&self) -> bool {
        self.fields.get(COPIES).is_some()
    }

    pub(crate) fn whole(&self) -> WholeStage {
        WholeStage { stage: self.stage, values: self.values }
    }

    pub(crate) fn read_as(&self) -> StageRead {
        StageRead { id: self.id, version: self.version.number(), stage: self.stage, values: self.values }
    }

    /// The time of the first write, by the operator's clock.
    pub(crate) fn since(&self) -> Option<SystemTime> {
        let seconds = self.fields.get(SINCE)?.parse().ok()?;
        SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    }

    /// Deletes the stage. Returns `false` if it has changed since the read.
    pub(crate) async fn delete(&self, backend: &dyn Backend, place: &MovePlace) -> Result<bool> {
        let expected = Expected::Version(self.version);
        let deletion = CellWrite { expected, value: None, life: CellLife::Stays };
        let written = backend.write_cell(&place.stage, &deletion).await?;
        Ok(matches!(written, CellWritten::Deleted { was_there: true }))
    }
}
