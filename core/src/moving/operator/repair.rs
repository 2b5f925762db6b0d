//! The repair of a side that has lost its marker, the stage or the record.
//!
//! `docs/protocol/moving.md` has the steps and their reasons. Each decision, and its writes, are of one look.
//!
//! *Why it is safe.* A plain client that connected without a marker may hold on one side alone. The marker is
//! written before the list is read, so no other one can connect. Each later step lists the clients again
//! (MIGRATE-GATE-EACH-STEP), even if the repairing operator dies. The epoch is written after the list, since
//! it rises under no plain client (MIGRATE-EPOCH-RECORDED). A restored stage has another identity, because
//! lost versions may be used again. Its members know its phase or a neighbour, since each phase is announced
//! after all members have acknowledged the one before. The only copy of values is kept
//! (MIGRATE-REPAIR-KEEPS).

use super::gate::new_id;
use super::look::{ListValues, Looked};
use super::side::OperatorSide;
use super::{Move, MoveBlocker};
use crate::decide::moving::obstacles::{MarkerStanding, Repair, shut_in};
use crate::decide::moving::{MovePhase, Side, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::seen;

impl Move {
    /// Restores the part of the move that a server has lost.
    ///
    /// A server can lose a marker, the stage or the record in a failover or by a manual deletion. Until the
    /// repair, all steps are refused. Participants stay in their phase, or acquire nothing if the sides
    /// contradict each other. `repair` restores the missing parts from the other side, or changes nothing if
    /// none are missing. Returns the sides on which it has written.
    ///
    /// # Errors
    /// * `Conflict`: plain [clients](MoveBlocker::Outsiders) have connected without a marker. The markers
    ///   stay, so no other client connects: stop these clients and call again. From phase *new* on, such a
    ///   client may have held a lock at the same time as a participant.
    /// * `Conflict`: the old side may have [the only copy](MoveBlocker::OnlyCopy) of the values.
    /// * `Conflict`: a side has another marker; or neither side has anything of this move.
    /// * As [all methods](Self).
    pub async fn repair(&self) -> Result<Vec<Side>> {
        self.serve("repair", self.repairs()).await
    }

    async fn repairs(&self) -> Result<Vec<Side>> {
        let looked = self.look(self.stage().await?, ListValues::Always).await?;
        let of_stage = looked.staged.as_ref().map(|staged| staged.stage.phase);
        let phase = match looked.found.repair(new_id()) {
            Repair::OnlyCopy(contradiction) => return Err(MoveBlocker::OnlyCopy(contradiction).into()),
            Repair::Stage(record, _) => record.from,
            _ => of_stage.ok_or_else(nothing_to_repair)?,
        };
        let markers = looked.found.markers;
        for (side, standing) in Side::BOTH.into_iter().zip(markers) {
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
            // While the markers were missing, the move may have ended or changed its phase.
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
            let looked = self.look(staged, ListValues::Always).await?;
            if !looked.outsiders.is_empty() {
                self.unless_overtaken(version, MoveBlocker::Outsiders(looked.outsiders).into()).await?;
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

    /// Restores the stage or the record by this look. No plain client is connected.
    async fn restores(&self, looked: &Looked) -> Result<Restored> {
        let (record, restored) = match looked.found.repair(new_id()) {
            Repair::Nothing => return Ok(Restored::Nothing),
            Repair::OnlyCopy(contradiction) => return Err(MoveBlocker::OnlyCopy(contradiction).into()),
            Repair::Stage(record, copies) => (record, Some(copies)),
            Repair::Record(record) => (record, None),
        };
        let changed = Stamped { arrival: Some(self.arrival(record)), ..looked.stamps[1].clone() };
        if self.new.write(changed).await?.is_none() {
            return Ok(Restored::Changed);
        }
        let Some(copies) = restored else { return Ok(Restored::On(Side::New)) };
        let over = looked.staged.as_ref();
        let written = self.write_stage(over, record.id, record.whole(), copies).await?;
        Ok(written.map_or(Restored::Changed, |_| Restored::On(Side::Old)))
    }

    /// Writes the marker of a side that has none. Returns the new stamp if it did.
    async fn mark_where_none_is(&self, side: &OperatorSide) -> Result<Option<Stamped>> {
        loop {
            let read = side.stamped().await?;
            match self.standing(side.side, read.marker.as_ref()) {
                MarkerStanding::Missing => {}
                // `finish` has retired it.
                MarkerStanding::Own | MarkerStanding::Retired => return Ok(None),
                _ => return Err(side.marked_otherwise(read.marker.as_ref())),
            }
            // Otherwise another client has written the stamp since.
            if let Some(written) = side.mark(&read, Some(&self.marker(side.side))).await? {
                return Ok(Some(written));
            }
        }
    }

    /// Raises the epoch in the stamp of the tokens' side to the stage's. No plain client is connected.
    async fn record_anew(&self, stage: Stage) -> Result<()> {
        let side = self.side(stage.phase.token());
        loop {
            let stamped = side.stamped().await?;
            // An operator that ended the move and opened the gate has recorded the epoch.
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

enum Restored {
    /// The sides agree.
    Nothing,
    /// This side was written.
    On(Side),
    /// Another operator has written since the read.
    Changed,
}

fn nothing_to_repair() -> Error {
    let why = "nothing to repair: neither side has anything of this move. The move has not begun, or was given up or \
               finished: see `latchwork migrate status`";
    Error::new(ErrorKind::Conflict, why)
}
