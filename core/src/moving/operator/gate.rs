//! The gate: nobody stands outside of a move.
//!
//! *Protocol.* Who begins reads the cell with the stage, or makes it; writes the markers of both sides
//! anew; and then lists the clients of both (MIGRATE-GATE). Who gives a move up knows the markers'
//! versions first, then deletes the cell over the version that it read, and then lifts each marker over
//! its version (MIGRATE-GATE-ANEW).

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

/// How the gate stands for one who begins.
pub(super) enum Shut {
    /// Nobody is outside of the move whose cell has this version.
    Behind(Version),
    /// Another operator has written the cell meanwhile.
    Changed,
}

impl Move {
    /// The stage of a move that begins: made, if there is none, and whether it was. It has the old side's epoch,
    /// by which plain clients give tokens still.
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

    /// Shuts both sides for plain clients, and lists who is there. `made`: whether this operator has made the stage.
    ///
    /// # Errors
    /// `Conflict` naming who is outside, or whose marker stands; what was written is taken back then.
    pub(super) async fn shut(&self, staged: &Staged, made: bool) -> Result<Shut> {
        let mut marked = [None, None];
        // The new side first: a plain client of the old one works for as long as it may.
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
            // Those on the new side are its own.
            None if staged.has_copies() => None,
            None => self.values_against().await?,
        };
        let Some(blocker) = blocker else { return Ok(Shut::Behind(staged.version)) };
        match self.take_back(staged, made, marked).await? {
            true => Err(blocker.into()),
            false => Ok(Shut::Changed),
        }
    }

    /// Writes the marker of a side anew.
    async fn mark(&self, side: &OperatorSide) -> Result<Stamped> {
        let marked = Stamped::mark_anew(side.backend(), &side.place, &self.marker(side.side)).await;
        marked.map(|(_, stands)| stands).map_err(on(side.side))
    }

    /// Takes back what one who begins has written, if no other operator has gone on with it. Where the old
    /// side has lost the epoch that the stage says, all of it stays (MIGRATE-EPOCH-RECORDED); where values were
    /// copied before: without the cell nobody would know that they are copies; and where another has stepped back to
    /// this stage, and a member does not know it yet (MIGRATE-GIVEN-UP-LAST). Answers whether no other has gone on.
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

    /// Gives the move up, from what was read of it: its cell goes, if it is in the first phase, and then its
    /// markers. Answers whether nothing of it stands any more; else another operator has gone on. `deleted`: this
    /// operator has deleted it before, or does so here.
    pub(super) async fn give_up(&self, checked: Option<&Staged>, deleted: bool) -> Result<bool> {
        let marked = [self.old.stamped().await?, self.new.stamped().await?];
        for (side, marked) in SIDES.into_iter().zip(&marked) {
            if let Some(stands) = marked.marker.as_ref().filter(|stands| self.is_namesake(side, stands)) {
                return Err(self.side(side).marked_otherwise(Some(stands)));
            }
        }
        // Read again, behind the markers' versions. What another has begun since, members have not acknowledged.
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
            // Plain clients would give tokens below those that were given.
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

    /// Whether nobody takes part by a stage that the old side may have lost.
    ///
    /// # Errors
    /// `Conflict` naming those who may.
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

    /// Whether a marker is of a move of this name between other coordinators, or of this one by other URLs.
    pub(super) fn is_namesake(&self, side: Side, stands: &GateMarker) -> bool {
        let own = self.marker(side);
        stands.name == own.name && stands.course == own.course && *stands != own
    }

    /// Opens the new side for plain clients, where the move is done (MIGRATE-GATE-OPENS-LAST).
    ///
    /// # Errors
    /// `Conflict` where it is shut by other URLs: it would stay so.
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
            // Behind the marker's version: what is done stays done.
            let staged = self.stage().await?;
            if staged.is_none_or(|staged| staged.stage.phase != MovePhase::Done) {
                return Err(Error::new(ErrorKind::Conflict, "the move is not done"));
            }
            if self.lift(Side::New, &marked).await? {
                return Ok(());
            }
        }
    }

    /// Lifts the marker of a side over what was read. Answers whether that still stood.
    async fn lift(&self, side: Side, read: &Stamped) -> Result<bool> {
        Ok(self.side(side).mark(read, None).await?.is_some())
    }
}
