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
//! It decides and writes by one look: over the stamp and the stage of the look in which it has decided.
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

use super::super::staged::Staged;
use super::gate::new_id;
use super::look::{ListValues, Looked};
use super::side::{OperatorSide, on};
use super::{Move, MoveBlocker};
use crate::decide::moving::obstacles::{MarkerStanding, Repair, shut_in};
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

    /// Restores the stage or the record, over the stamp and the stage of this look. The gate is shut, and no plain
    /// client is connected.
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
        let (backend, over) = (self.old.backend(), looked.staged.as_ref());
        let written = Staged::write(backend, &self.place, over, record.id, record.whole(), copies).await;
        let written = written.map_err(on(Side::Old))?;
        Ok(written.map_or(Restored::Changed, |_| Restored::On(Side::Old)))
    }

    /// Writes the marker of a side that has none. Returns the new stamp if it wrote one.
    async fn mark_where_none_is(&self, side: &OperatorSide) -> Result<Option<Stamped>> {
        loop {
            let read = side.stamped().await?;
            match self.standing(side.side, read.marker.as_ref()) {
                MarkerStanding::Missing => {}
                // It is retired if `finish` was begun.
                MarkerStanding::Own | MarkerStanding::Retired => return Ok(None),
                _ => return Err(side.marked_otherwise(read.marker.as_ref())),
            }
            // Otherwise another client has written the stamp since it was read.
            if let Some(written) = side.mark(&read, Some(&self.marker(side.side))).await? {
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
