//! The gate: it lets no client stay outside of a move.
//!
//! *Protocol.* To begin a move, an operator reads the cell with the stage, or creates it; writes the markers
//! of both sides, also if they exist; and then lists the clients of both sides (MIGRATE-GATE). To give a move
//! up, it reads the versions of the markers, then deletes the cell over the version that it read, and then
//! removes each marker over its version (MIGRATE-GATE-ANEW).

use super::super::staged::Staged;
use super::side::{OperatorSide, on};
use super::status::is_late;
use super::{Move, MoveBlocker};
use crate::contracts::Version;
use crate::decide::moving::gate::GateMarker;
use crate::decide::moving::values::WholeStage;
use crate::decide::moving::{MovePhase, Side};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::seen;

const SIDES: [Side; 2] = [Side::Old, Side::New];

/// The result of shutting the gate.
pub(super) enum Shut {
    /// No client is outside of the move whose cell has this version.
    Behind(Version),
    /// Another operator has written the cell since it was read.
    Changed,
}

impl Move {
    /// Returns the stage of a move that begins, and whether this call created it. A new stage has the epoch
    /// of the old side, because plain clients still give tokens by it.
    pub(super) async fn first_stage(&self) -> Result<Option<(Staged, bool)>> {
        match self.stage().await? {
            Some(staged) => Ok(Some((staged, false))),
            None => {
                let epoch = self.old.stamped().await?.epoch;
                let made =
                    Staged::write(self.old.backend(), &self.place, None, WholeStage::before(epoch)).await;
                Ok(made.map_err(on(Side::Old))?.map(|made| (made, true)))
            }
        }
    }

    /// Shuts both sides for plain clients, and lists the connected clients. `made`: whether this operator
    /// created the stage.
    ///
    /// # Errors
    /// `Conflict` naming the outsiders, or the other marker. Its writes are undone then.
    pub(super) async fn shut(&self, staged: &Staged, made: bool) -> Result<Shut> {
        let mut marked = [None, None];
        // The new side first, so that plain clients of the old side can work a little longer.
        for side in [Side::New, Side::Old] {
            match self.mark(self.side(side)).await {
                Ok(stamped) => marked[side as usize] = Some(stamped),
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    self.take_back(staged, made, marked).await?;
                    return Err(error);
                }
                Err(error) => return Err(error),
            }
        }
        let blocker = match self.outsiders_against(MovePhase::Old).await? {
            Some(outsiders) => Some(outsiders),
            // The values on the new side are copies that this move made.
            None if staged.has_copies() => None,
            None => self.values_against().await?,
        };
        let Some(blocker) = blocker else { return Ok(Shut::Behind(staged.version)) };
        match self.take_back(staged, made, marked).await? {
            true => Err(blocker.into()),
            false => Ok(Shut::Changed),
        }
    }

    /// Writes the marker of a side, also if it exists already.
    async fn mark(&self, side: &OperatorSide) -> Result<Stamped> {
        let marked = Stamped::mark_anew(side.backend(), &side.place, &self.marker(side.side)).await;
        marked.map(|(_, stands)| stands).map_err(on(side.side))
    }

    /// Undoes the writes of a failed start, unless another operator continued the move. Returns whether no
    /// other operator did.
    ///
    /// Nothing is undone in three cases. The old side has lost the epoch of the stage
    /// (MIGRATE-EPOCH-RECORDED). Values were copied before: without the cell no client could know that they
    /// are copies. Another operator has stepped back to this stage, and a member does not know it yet
    /// (MIGRATE-GIVEN-UP-LAST).
    async fn take_back(&self, staged: &Staged, made: bool, marked: [Option<Stamped>; 2]) -> Result<bool> {
        if staged.has_copies() || self.old.stamped().await?.epoch < staged.stage.epoch {
            return Ok(true);
        }
        if !made && self.members().await?.iter().any(|member| is_late(member, staged)) {
            return Ok(true);
        }
        if !staged.delete(self.old.backend(), &self.place).await.map_err(on(Side::Old))? {
            return Ok(false);
        }
        for (side, marked) in SIDES.into_iter().zip(marked) {
            if let Some(marked) = marked {
                self.lift(side, &marked).await?;
            }
        }
        Ok(true)
    }

    /// Gives the move up: deletes its cell if the move is in the first phase, and then removes its markers.
    /// Returns whether nothing of it is left; otherwise another operator has continued it. `deleted`: this
    /// operator has deleted the cell before, or does so here.
    pub(super) async fn give_up(&self, checked: Option<&Staged>, deleted: bool) -> Result<bool> {
        let marked = [self.old.stamped().await?, self.new.stamped().await?];
        for (side, marked) in SIDES.into_iter().zip(&marked) {
            if let Some(stands) = marked.marker.as_ref().filter(|stands| self.is_namesake(side, stands)) {
                return Err(self.side(side).marked_otherwise(Some(stands)));
            }
        }
        // Read after the versions of the markers: members have not acknowledged a move that another operator began since.
        let staged = self.stage().await?;
        if staged.as_ref().map(|staged| staged.version) != checked.map(|checked| checked.version) {
            return Ok(false);
        }
        if staged.is_none() && !deleted {
            self.check_not_lost([&marked[0], &marked[1]]).await?;
        }
        if let Some(staged) = &staged
            && staged.stage.phase == MovePhase::Old
            && marked[0].epoch < staged.stage.epoch
        {
            // Plain clients would give tokens that are lower than earlier ones.
            return Err(MoveBlocker::MarkerLost(Side::Old).into());
        }
        if let Some(staged) = &staged
            && (staged.stage.phase != MovePhase::Old
                || !staged.delete(self.old.backend(), &self.place).await.map_err(on(Side::Old))?)
        {
            return Ok(false);
        }
        let (mut stood, mut lifted) = (staged.is_some(), true);
        for (side, marked) in SIDES.into_iter().zip(&marked) {
            if marked.marker.as_ref() == Some(&self.marker(side)) {
                stood = true;
                lifted &= self.lift(side, marked).await?;
            }
        }
        if stood && lifted {
            seen::move_given_up(&self.name);
        }
        Ok(lifted)
    }

    /// Checks that no client takes part by a stage that the old side may have lost.
    ///
    /// # Errors
    /// `Conflict` naming the participants.
    async fn check_not_lost(&self, stamps: [&Stamped; 2]) -> Result<()> {
        if !self.may_be_lost(stamps) {
            return Ok(());
        }
        let connected = self.connected(&self.members().await?, MovePhase::Old).await?;
        match connected.participants.is_empty() {
            true => Ok(()),
            false => Err(MoveBlocker::StageLost(connected.participants).into()),
        }
    }

    /// Whether a marker belongs to a move of this name with other URLs.
    pub(super) fn is_namesake(&self, side: Side, stands: &GateMarker) -> bool {
        let own = self.marker(side);
        stands.name == own.name && stands.course == own.course && *stands != own
    }

    /// Opens the new side for plain clients once the move is done (MIGRATE-GATE-OPENS-LAST).
    ///
    /// # Errors
    /// `Conflict` if it is shut by a move with other URLs, which this move cannot open.
    pub(super) async fn open(&self) -> Result<()> {
        loop {
            let marked = self.new.stamped().await?;
            if let Some(stands) = marked.marker.as_ref().filter(|stands| self.is_namesake(Side::New, stands))
            {
                return Err(self.new.marked_otherwise(Some(stands)));
            }
            if marked.marker.as_ref() != Some(&self.marker(Side::New)) {
                return Ok(());
            }
            // Read after the version of the marker: *done* is final.
            let staged = self.stage().await?;
            if staged.is_none_or(|staged| staged.stage.phase != MovePhase::Done) {
                return Err(Error::new(ErrorKind::Conflict, "the move is not done: call `run` first"));
            }
            if self.lift(Side::New, &marked).await? {
                return Ok(());
            }
        }
    }

    /// Removes the marker of a side over the version that was read. Returns whether that was still the
    /// current one.
    async fn lift(&self, side: Side, read: &Stamped) -> Result<bool> {
        Ok(self.side(side).mark(read, None).await?.is_some())
    }
}
