//! The repair of a gate whose marker a server has lost.
//!
//! *Protocol.* The operator reads the stage; writes each missing marker; then lists the clients of both
//! sides; and once no client is outside, writes the epoch if the stamp says a lower one. Then it reads the
//! stage again: if the move has ended since, it undoes its writes, over its versions.
//!
//! *Why it is safe.* While the marker was missing, a plain client may have connected and may hold on one side
//! alone. The marker is written before the list is read, so no other plain client can connect. The list need
//! not be stored: each step reads both markers and lists the clients after them (MIGRATE-GATE-EACH-STEP). So
//! a plain client that stays connected stops the move, whichever operator repaired it and wherever that
//! operator died. The epoch is written after the list, since it is raised under no plain client
//! (MIGRATE-EPOCH-RECORDED).

use super::side::{OperatorSide, on};
use super::{Move, MoveBlocker};
use crate::decide::moving::{MovePhase, Side, Stage};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::seen;

impl Move {
    /// Shuts the gate again after a server lost it.
    ///
    /// A marker can be lost with the data of a server, in a failover to a replica without it, or by a manual
    /// deletion. Until the repair every step of the move is refused, and its participants stay in their
    /// phase. `repair` writes the missing markers, lists the plain clients that connected while they were
    /// missing, and writes the epoch of the tokens again. Then the steps can continue. If nothing is missing
    /// it changes nothing. Returns the sides whose marker it has written.
    ///
    /// # Errors
    /// * `Conflict`: plain [clients](MoveBlocker::Outsiders) have connected, and the error names them. The
    ///   markers stay, so that no other client connects: stop these clients and repeat the call. From phase
    ///   *new* on, a lock that such a client holds may have been held by a participant at the same time.
    /// * `Conflict`: a side has another marker; or the old side has no stage, because no move has begun or
    ///   the server has lost it too.
    /// * As [all methods](Self).
    pub async fn repair(&self) -> Result<Vec<Side>> {
        self.serve("repair", self.repairs()).await
    }

    async fn repairs(&self) -> Result<Vec<Side>> {
        let Some(staged) = self.stage().await? else { return Err(nothing_to_repair()) };
        let mut written = Vec::new();
        for side in shut_in(staged.stage.phase) {
            if let Some(stamped) = self.mark_where_none_is(self.side(*side)).await? {
                seen::move_repaired(&self.name, *side);
                written.push((*side, stamped));
            }
        }
        loop {
            // The move may have ended or changed its phase while the markers were missing.
            let Some(staged) = self.stage().await? else {
                for (side, stamped) in &written {
                    self.side(*side).mark(stamped, None).await?;
                }
                return Err(nothing_to_repair());
            };
            if staged.stage.phase == MovePhase::Done {
                self.open().await?;
            }
            if let Err(error) = self.check_outsiders(staged.stage.phase).await {
                self.unless_overtaken(Some(staged.version), error).await?;
                continue;
            }
            self.record_anew(staged.stage).await?;
            return Ok(written.into_iter().map(|(side, _)| side).collect());
        }
    }

    /// Writes the marker of a side that has none. Returns the new stamp if it wrote one.
    async fn mark_where_none_is(&self, side: &OperatorSide) -> Result<Option<Stamped>> {
        loop {
            let read = side.stamped().await?;
            let own = self.marker(side.side);
            match &read.marker {
                None => {}
                Some(stands) if *stands == own => return Ok(None),
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
            if stamped.epoch >= stage.epoch || !self.is_shut(side, &stamped) {
                return Ok(());
            }
            let raised = stamped.raise_epoch(side.backend(), &side.place, stage.epoch).await;
            if raised.map_err(on(side.side))?.is_some() {
                return Ok(());
            }
        }
    }

    fn is_shut(&self, side: &OperatorSide, stamped: &Stamped) -> bool {
        stamped.marker.as_ref() == Some(&self.marker(side.side))
    }

    /// Checks that the gate is shut: both markers exist, and no plain client connected before them. Each step
    /// relies on it (MIGRATE-GATE-EACH-STEP).
    ///
    /// # Errors
    /// `Conflict` if a marker is missing, because the move began with another URL or the server lost it;
    /// `Conflict` naming the outsiders.
    pub(super) async fn check_gate(&self) -> Result<()> {
        for side in [&self.old, &self.new] {
            let stands = side.stamped().await?.marker;
            match stands {
                Some(marker) if marker == self.marker(side.side) => {}
                Some(marker) => return Err(side.marked_otherwise(Some(&marker))),
                None => return Err(MoveBlocker::MarkerLost(side.side).into()),
            }
        }
        self.check_outsiders(MovePhase::Old).await
    }

    /// The blockers of the next step from this stage in the markers that were read. Each step
    /// [needs](Self::check_gate) exactly the markers of this move with these URLs.
    pub(super) fn blocked_behind(&self, stage: Stage, stamps: [&Stamped; 2]) -> Vec<MoveBlocker> {
        let mut blockers = Vec::new();
        for (side, stamped) in [Side::Old, Side::New].into_iter().zip(stamps) {
            let (is_shut, own) = (shut_in(stage.phase).contains(&side), self.marker(side));
            match &stamped.marker {
                None if is_shut => blockers.push(MoveBlocker::MarkerLost(side)),
                None => {}
                Some(stands) if *stands == own && !is_shut => blockers.push(MoveBlocker::NotOpened),
                Some(stands) if *stands == own => {}
                // `finish` was begun.
                Some(stands) if stage.phase == MovePhase::Done && *stands == self.retired() => {}
                Some(stands) if is_shut || self.is_namesake(side, stands) => {
                    let (name, url) = (stands.name.clone(), stands.url.clone());
                    blockers.push(MoveBlocker::MarkedOtherwise { side, name, url });
                }
                // Another move has begun from there.
                Some(_) => {}
            }
        }
        blockers
    }
}

/// The sides that are shut in this phase. The new side is open from *done* on.
pub(super) fn shut_in(phase: MovePhase) -> &'static [Side] {
    match phase {
        MovePhase::Done => &[Side::Old],
        // The new side first, as at the beginning.
        _ => &[Side::New, Side::Old],
    }
}

fn nothing_to_repair() -> Error {
    let why = "nothing to repair: the old side has no stage of this move. The move has not begun, or was given up or \
               finished, or the server has lost the stage too: see `latchwork migrate status`";
    Error::new(ErrorKind::Conflict, why)
}
