//! The repair of a side that has lost data: its marker, the stage, or the record.
//!
//! *Protocol.* The operator looks at both sides. It writes each missing marker, and then lists the clients of both
//! sides; it ends if a plain client is there. Then it restores the side that contradicts the other one:
//!
//! * The stage, from the record, with the latest phase that a client may know. The move gets another identity, in
//!   the record first: versions that the old side has lost may be used again, and no client takes the new stage
//!   for an earlier one.
//! * The record, from the stage, unless the new side had the values and the old side still has values: they may
//!   be the only copy (MIGRATE-REPAIR-KEEPS).
//!
//! At the end it writes the epoch if the stamp of the tokens' side has a lower one. If the move has ended before
//! that, it removes the markers that it wrote, over their versions.
//!
//! *Why it is safe.* While the marker was missing, a plain client may have connected and may hold on one side
//! alone. The marker is written before the list is read, so no other plain client can connect. The list need
//! not be stored: each step reads both markers and lists the clients after them (MIGRATE-GATE-EACH-STEP). So
//! a plain client that stays connected stops the move, whichever operator repaired it and wherever that
//! operator died. The epoch is written after the list, since it is raised under no plain client
//! (MIGRATE-EPOCH-RECORDED). Members know the phase of the restored stage or a neighbour of it, since each phase is
//! announced in the record after all members have acknowledged the one before.

use uuid::Uuid;

use super::super::staged::Staged;
use super::look::{ListValues, Looked};
use super::side::{OperatorSide, on};
use super::{Move, MoveBlocker};
use crate::decide::moving::evidence::{Contradiction, MoveId, MoveRecord};
use crate::decide::moving::obstacles::{MarkerStanding, MemberSays, shut_in};
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Side, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::seen;

impl Move {
    /// Restores the part of the move that a server has lost.
    ///
    /// A marker, the stage or the record can be lost with the data of a server, in a failover to a replica without
    /// it, or by a manual deletion. Until the repair every step of the move is refused. Its participants stay in
    /// their phase, or acquire nothing if the two sides contradict each other. `repair` writes the missing parts
    /// from the other side, and lists the plain clients that connected while a marker was missing. Then the steps
    /// can continue. If nothing is missing it changes nothing. Returns the sides on which it has written something.
    ///
    /// # Errors
    /// * `Conflict`: plain [clients](MoveBlocker::Outsiders) have connected, and the error names them. The
    ///   markers stay, so that no other client connects: stop these clients and repeat the call. From phase
    ///   *new* on, a lock that such a client holds may have been held by a participant at the same time.
    /// * `Conflict`: the new side has lost the values, and the old side may have
    ///   [the only copy](MoveBlocker::OnlyCopy).
    /// * `Conflict`: a side has another marker; or neither side has anything of this move.
    /// * As [all methods](Self).
    pub async fn repair(&self) -> Result<Vec<Side>> {
        self.serve("repair", self.repairs()).await
    }

    async fn repairs(&self) -> Result<Vec<Side>> {
        let looked = self.look(self.stage().await?, ListValues::Always).await?;
        let found = self.found(&looked);
        let contradiction = found.contradiction();
        let of_stage = looked.staged.as_ref().map(|staged| staged.stage.phase);
        let phase = match (contradiction, found.record) {
            (Some(Contradiction::StageLost | Contradiction::StageWentBack), Some(record)) => record.reached(),
            (Some(contradiction), _) if found.has_only_copy() => {
                return Err(MoveBlocker::OnlyCopy(contradiction).into());
            }
            _ => of_stage.ok_or_else(nothing_to_repair)?,
        };
        for (side, standing) in [(Side::Old, found.markers[0]), (Side::New, found.markers[1])] {
            if matches!(standing, MarkerStanding::Namesake)
                || standing == MarkerStanding::Other && shut_in(phase).contains(&side)
            {
                return Err(self.side(side).marked_otherwise(looked.stamps[side as usize].marker.as_ref()));
            }
        }
        let mut written = Vec::new();
        for side in shut_in(phase) {
            if let Some(stamped) = self.mark_where_none_is(self.side(*side)).await? {
                seen::move_repaired(&self.name, *side);
                written.push((*side, stamped));
            }
        }
        let mut sides: Vec<_> = written.iter().map(|(side, _)| *side).collect();
        loop {
            // The move may have ended or changed its phase while the markers were missing.
            let staged = self.stage().await?;
            if staged.is_none() && of_stage.is_some() {
                for (side, stamped) in written {
                    self.side(side).mark(&stamped, None).await?;
                }
                return Err(nothing_to_repair());
            }
            if staged.as_ref().is_some_and(|staged| staged.stage.phase == MovePhase::Done) {
                self.open().await?;
            }
            let version = staged.as_ref().map(|staged| staged.version);
            let looked = self.look(staged, ListValues::Never).await?;
            let outsiders = self.outsiders(&looked);
            if !outsiders.is_empty() {
                self.unless_overtaken(version, MoveBlocker::Outsiders(outsiders).into()).await?;
                continue;
            }
            match self.restores(&looked).await? {
                Restored::Nothing => {}
                Restored::On(side) => {
                    seen::move_repaired(&self.name, side);
                    sides.retain(|known| *known != side);
                    sides.push(side);
                    continue;
                }
                Restored::Changed => continue,
            }
            if let Some(staged) = &looked.staged {
                self.record_anew(staged.stage).await?;
            }
            return Ok(sides);
        }
    }

    /// Restores the stage or the record. The gate is shut, and no plain client is connected.
    async fn restores(&self, looked: &Looked) -> Result<Restored> {
        let found = self.found(looked);
        let ahead = |says: &MemberSays| says.is_ahead(found.stage.map(|read| read.version));
        match (found.contradiction(), found.record, &looked.staged) {
            (Some(Contradiction::StageLost | Contradiction::StageWentBack), Some(record), staged) => {
                self.restores_stage(record, staged.as_ref()).await
            }
            (Some(_), _, Some(staged)) => {
                let (from, to) = (staged.stage.phase, Some(staged.stage.phase));
                let (over, epoch) = (staged.version.number(), staged.stage.epoch);
                let record = MoveRecord { id: staged.id, from, to, over, epoch };
                let changed = Stamped { arrival: Some(self.arrival(record)), ..looked.stamps[1].clone() };
                Ok(match self.new.write(changed).await? {
                    Some(_) => Restored::On(Side::New),
                    None => Restored::Changed,
                })
            }
            // Members know a later stage, which the old side has lost.
            (None, Some(record), Some(staged)) if found.members.iter().any(ahead) => {
                let announced = record.is_pending(staged.read_as());
                let (phase, epoch) = match record.to.filter(|_| announced) {
                    Some(to) => (to.max(staged.stage.phase), record.epoch.max(staged.stage.epoch)),
                    None => (staged.stage.phase, staged.stage.epoch),
                };
                let record = MoveRecord { from: phase, to: Some(phase), epoch, ..record };
                self.restores_stage(record, Some(staged)).await
            }
            _ => Ok(Restored::Nothing),
        }
    }

    /// Writes the stage of the latest phase that the record shows, with another identity, which the record has first.
    async fn restores_stage(&self, record: MoveRecord, over: Option<&Staged>) -> Result<Restored> {
        let (phase, stamped) = (record.reached(), self.new.stamped().await?);
        // The record of a repair that has not written the stage yet.
        let is_repaired = record.over == 0
            && Some(record.from) == record.to
            && over.is_none_or(|over| over.id != record.id);
        let id = if is_repaired { record.id } else { MoveId::new(Uuid::new_v4().as_u128()) };
        let of_tokens = self.side(phase.token()).stamped().await?.epoch;
        let stage = Stage { phase, epoch: record.epoch.max(of_tokens) };
        let repaired = MoveRecord { id, from: phase, to: Some(phase), over: 0, epoch: stage.epoch };
        let changed = Stamped { arrival: Some(self.arrival(repaired)), ..stamped };
        if self.new.write(changed).await?.is_none() {
            return Ok(Restored::Changed);
        }
        let whole = WholeStage { stage, values: ValuesAt::from(phase.token()) };
        let written = Staged::write(self.old.backend(), &self.place, over, id, whole).await;
        Ok(match written.map_err(on(Side::Old))? {
            Some(_) => Restored::On(Side::Old),
            None => Restored::Changed,
        })
    }

    /// Writes the marker of a side that has none. Returns the new stamp if it wrote one.
    async fn mark_where_none_is(&self, side: &OperatorSide) -> Result<Option<Stamped>> {
        loop {
            let read = side.stamped().await?;
            let own = self.marker(side.side);
            match &read.marker {
                None => {}
                Some(stands) if *stands == own => return Ok(None),
                // `finish` was begun.
                Some(stands) if *stands == self.retired() => return Ok(None),
                Some(stands) => return Err(side.marked_otherwise(Some(stands))),
            }
            // Otherwise another client has written the stamp since it was read.
            if let Some(written) = side.mark(&read, Some(&own)).await? {
                return Ok(Some(written));
            }
        }
    }

    /// Writes the epoch of the stage into the stamp of the tokens' side, unless it is there. Called when no
    /// client is outside.
    async fn record_anew(&self, stage: Stage) -> Result<()> {
        let side = self.side(stage.phase.token());
        loop {
            let stamped = side.stamped().await?;
            // If the end of the move opened the gate, the operator that ended it has recorded the epoch.
            let is_shut = self.standing(side.side, stamped.marker.as_ref()) == MarkerStanding::Own;
            if stamped.epoch >= stage.epoch || !is_shut {
                return Ok(());
            }
            if side.write(Stamped { epoch: stage.epoch, ..stamped }).await?.is_some() {
                return Ok(());
            }
        }
    }
}

/// The result of a restoration.
enum Restored {
    /// The sides agree.
    Nothing,
    /// It has written this side.
    On(Side),
    /// Another operator has written a side since it was read.
    Changed,
}

fn nothing_to_repair() -> Error {
    let why = "nothing to repair: neither side has anything of this move. The move has not begun, or was given up or \
               finished: see `latchwork migrate status`";
    Error::new(ErrorKind::Conflict, why)
}
