//! The gate: no client stays outside of a move (MIGRATE-GATE, MIGRATE-GATE-ANEW).
//!
//! `docs/protocol/moving.md` has the order of reads and writes.

use uuid::Uuid;

use super::super::staged::Staged;
use super::late::is_late;
use super::look::{ListValues, Looked};
use super::side::on;
use super::{Move, MoveBlocker};
use crate::contracts::Version;
use crate::decide::moving::evidence::{Contradiction, MoveId, MoveRecord};
use crate::decide::moving::obstacles::{MarkerStanding, Wanted};
use crate::decide::moving::values::WholeStage;
use crate::decide::moving::{MovePhase, Side, Way};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::{Arrival, Stamped};
use crate::seen;

pub(super) enum Shut {
    /// All clients take part at this stage.
    Behind(Box<Looked>),
    Changed,
}

impl Move {
    /// Writes the first stage, with a new identity and the old side's epoch, of which plain clients still
    /// give tokens.
    pub(super) async fn first_stage(&self, looked: &Looked) -> Result<Option<Staged>> {
        let (id, first) = (new_id(), WholeStage::before(looked.stamps[0].epoch));
        self.write_stage(None, id, first, false).await
    }

    pub(super) fn arrival(&self, record: MoveRecord) -> Arrival {
        Arrival { name: self.name.to_string(), url: self.old.url.clone(), record }
    }

    /// Shuts both sides for plain clients, writes the record, and looks at both sides again. `made`: the
    /// stage that this operator has created.
    ///
    /// # Errors
    /// `Conflict` naming the blocker. Stage and markers are removed then, unless members rely on them.
    pub(super) async fn shut(&self, staged: Staged, made: Option<Version>) -> Result<Shut> {
        let made = made == Some(staged.version);
        // The new side first: plain clients of the old side can work a little longer.
        let marked = async {
            self.prepare(&staged).await?;
            let own = self.marker(Side::Old);
            Stamped::mark_anew(self.old.backend(), &self.old.place, &own).await.map_err(on(Side::Old))
        };
        if let Err(error) = marked.await {
            return match error.kind() {
                ErrorKind::Conflict => self.take_back(&staged, made).await.and(Err(error)),
                _ => Err(error),
            };
        }
        // The new side's values may be copies that this move made.
        let values = if staged.has_copies() { ListValues::Never } else { ListValues::Always };
        let looked = self.look(Some(staged.clone()), values).await?;
        match self.refuse(&looked, Wanted::Step(Way::Forward)) {
            Ok(()) => Ok(Shut::Behind(Box::new(looked))),
            Err(blocked) => match self.take_back(&staged, made).await? {
                true => Err(blocked),
                false => Ok(Shut::Changed),
            },
        }
    }

    /// Writes the new side's marker, also over itself, and the record.
    async fn prepare(&self, staged: &Staged) -> Result<()> {
        let own = self.marker(Side::New);
        loop {
            let read = self.new.stamped().await?;
            if !own.may_follow(read.marker.as_ref()) {
                return Err(self.new.marked_otherwise(read.marker.as_ref()));
            }
            let record = match self.record_in(&read) {
                Some(record) if record.id == staged.id && record.to.is_some() => record,
                Some(record) if record.id != staged.id && record.reached() != MovePhase::Old => {
                    return Err(MoveBlocker::Contradicts(Contradiction::StageWentBack).into());
                }
                _ => MoveRecord::prepared(staged.id, staged.stage.epoch),
            };
            let prepared = Stamped { marker: Some(own.clone()), arrival: Some(self.arrival(record)), ..read };
            // Otherwise another client has written the stamp since.
            if self.new.write(prepared).await?.is_some() {
                return Ok(());
            }
        }
    }

    /// Undoes the writes of a failed start; `false` if another operator has continued the move.
    ///
    /// Undoes nothing in three cases: the old side has lost the epoch (MIGRATE-EPOCH-RECORDED); values were
    /// copied, as only the stage records; or another operator has stepped back to this stage, and a member
    /// does not know that yet (MIGRATE-GIVEN-UP-LAST).
    async fn take_back(&self, staged: &Staged, made: bool) -> Result<bool> {
        if staged.has_copies() || self.old.stamped().await?.epoch < staged.stage.epoch {
            return Ok(true);
        }
        if !made && self.members().await?.iter().any(|member| is_late(member, staged)) {
            return Ok(true);
        }
        self.give_up(Some(staged)).await
    }

    /// Gives the move up in its first phase: announces it, deletes the stage, and removes markers and record;
    /// `false` if another operator has continued the move.
    pub(super) async fn give_up(&self, checked: Option<&Staged>) -> Result<bool> {
        let [old, mut new] = [self.old.stamped().await?, self.new.stamped().await?];
        // Read after the markers' versions: another operator may have begun a move since.
        let staged = self.stage().await?;
        if staged.as_ref().map(|staged| staged.version) != checked.map(|checked| checked.version) {
            return Ok(false);
        }
        if let Some(staged) = &staged {
            if old.epoch < staged.stage.epoch {
                // Plain clients would give tokens below earlier ones.
                return Err(MoveBlocker::MarkerLost(Side::Old).into());
            }
            // From here on no operator announces another change of this stage.
            if let Some(record) = self.record_in(&new).filter(|record| record.id == staged.id) {
                let over = staged.version.number();
                let given_up = MoveRecord { from: staged.stage.phase, to: None, over, ..record };
                if record.is_pending(staged.read_as()) && record != given_up {
                    return Ok(false);
                }
                let announced = Stamped { arrival: Some(self.arrival(given_up)), ..new };
                let Some(written) = self.new.write(announced).await? else { return Ok(false) };
                new = written;
            }
            if !staged.delete(self.old.backend(), &self.place).await.map_err(on(Side::Old))? {
                return Ok(false);
            }
        }
        let (mut stood, mut lifted) = (staged.is_some(), true);
        for (side, stamped) in Side::BOTH.into_iter().zip([old, new]) {
            let is_own = self.standing(side, stamped.marker.as_ref()) == MarkerStanding::Own;
            let record = self.record_in(&stamped).filter(|_| side == Side::New);
            let ends = record.is_some_and(|record| record.reached() == MovePhase::Old || record.to.is_none());
            if is_own || ends {
                stood = true;
                let marker = if is_own { None } else { stamped.marker.clone() };
                let arrival = if ends { None } else { stamped.arrival.clone() };
                lifted &= self.side(side).write(Stamped { marker, arrival, ..stamped }).await?.is_some();
            }
        }
        if stood && lifted {
            seen::move_given_up(&self.name);
        }
        Ok(lifted)
    }

    /// Opens the new side for plain clients once the move is done (MIGRATE-GATE-OPENS-LAST). The record
    /// stays.
    ///
    /// # Errors
    /// `Conflict` if a move with other URLs has shut it.
    pub(super) async fn open(&self) -> Result<()> {
        loop {
            let marked = self.new.stamped().await?;
            match self.standing(Side::New, marked.marker.as_ref()) {
                MarkerStanding::Own => {}
                MarkerStanding::Namesake => return Err(self.new.marked_otherwise(marked.marker.as_ref())),
                _ => return Ok(()),
            }
            // Read after the marker's version: *done* is final.
            let staged = self.stage().await?;
            if staged.is_none_or(|staged| staged.stage.phase != MovePhase::Done) {
                return Err(Error::new(ErrorKind::Conflict, "the move is not done: call `run` first"));
            }
            if self.new.mark(&marked, None).await?.is_some() {
                return Ok(());
            }
        }
    }
}

pub(super) fn new_id() -> MoveId {
    MoveId::new(Uuid::new_v4().as_u128())
}
