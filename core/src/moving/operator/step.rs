//! One step of a move: what is read, recorded and written, in this order.

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::gate::Shut;
use super::side::on;
use super::status::is_late;
use super::{Move, MoveBlocker, MoveStatus};
use crate::contracts::Version;
use crate::decide::moving::{MovePhase, Side, Stage, Step, Way};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;
use crate::watched::list_all;

/// What a try to take a step comes to.
pub(super) enum Stepped {
    /// The move is in this phase now.
    To(Stage),
    /// Members have not acknowledged the phase yet.
    Waits(MoveStatus),
    /// Another operator has written meanwhile: it is read again.
    Changed,
    /// There is no step any more that way: it is done, or given up.
    Ends,
}

impl Move {
    /// Tries to take one step from a stage that was read just now. `behind`: the version of the cell
    /// for which nobody is outside.
    pub(super) async fn attempt(
        &self,
        read: Option<Staged>,
        way: Way,
        behind: &mut Option<Version>,
    ) -> Result<Stepped> {
        let begins = read.as_ref().is_none_or(|staged| staged.stage.phase == MovePhase::Old);
        match (way, read) {
            (Way::Forward, _) if begins => self.begins(behind).await,
            (Way::Forward, Some(staged)) if staged.stage.phase == MovePhase::Done => {
                self.open().await?;
                Ok(Stepped::Ends)
            }
            (Way::Back, Some(staged)) if staged.stage.phase == MovePhase::Done => {
                let why = "the move is done, which is final: a move the other way brings the locks back";
                Err(Error::new(ErrorKind::Conflict, why))
            }
            (_, Some(staged)) if !begins => self.next(staged, way).await,
            (_, read) => self.ends(read).await,
        }
    }

    async fn begins(&self, behind: &mut Option<Version>) -> Result<Stepped> {
        if behind.is_none() {
            self.check_may_begin().await?;
        }
        let Some(staged) = self.first_stage().await? else { return Ok(Stepped::Changed) };
        if staged.stage.phase != MovePhase::Old {
            return Ok(Stepped::Changed);
        }
        if *behind != Some(staged.version) {
            match self.shut(&staged).await? {
                Shut::Behind(version) => *behind = Some(version),
                Shut::Changed => return Ok(Stepped::Changed),
            }
        }
        self.next(staged, Way::Forward).await
    }

    /// Gives the move up, once its members know that it is back in the first phase.
    async fn ends(&self, read: Option<Staged>) -> Result<Stepped> {
        if let Some(staged) = read {
            let members = self.members().await?;
            if members.iter().any(|member| is_late(member, &staged)) {
                return Ok(Stepped::Waits(self.status_at(&staged, &members)));
            }
        }
        Ok(if self.give_up().await? { Stepped::Ends } else { Stepped::Changed })
    }

    async fn next(&self, staged: Staged, way: Way) -> Result<Stepped> {
        // Behind the stage: who registers later reads it, or a later one.
        let members = self.members().await?;
        let acknowledged = members.iter().map(|member| member.acknowledged);
        match staged.stage.step(&staged.version.number(), acknowledged, way) {
            Step::Write(next) => {
                let Some(next) = self.record(&staged, next).await? else { return Ok(Stepped::Changed) };
                let written = Staged::write(self.old.backend(), &self.place, Some(&staged), next).await;
                match written.map_err(on(Side::Old))? {
                    Some(written) => {
                        self.seen.step(next.phase);
                        seen::move_phase(&self.name, next.phase, next.epoch);
                        Ok(Stepped::To(written.stage))
                    }
                    None => Ok(Stepped::Changed),
                }
            }
            Step::Waits => Ok(Stepped::Waits(self.status_at(&staged, &members))),
            Step::Ends => Ok(Stepped::Ends),
            Step::NoEpoch => Err(MoveBlocker::NoEpochs.into()),
        }
    }

    /// Sees to it that the stamp of the next stage's side says its epoch, before it is written
    /// (MIGRATE-EPOCH-RECORDED). Answers the stage as it may be written, or `None` if the move is not
    /// where it was checked any more.
    ///
    /// The stamp is read first, then the stage once more, and the epoch is written over that stamp. So no
    /// plain client is connected by it: the gate was shut at the stage that was read, and who opens it
    /// writes the stamp.
    async fn record(&self, checked: &Staged, next: Stage) -> Result<Option<Stage>> {
        self.check_marked().await?;
        let side = self.side(next.phase.token());
        loop {
            let stamped = side.stamped().await?;
            let next = next.above(stamped.epoch);
            if next.epoch == stamped.epoch {
                return Ok(Some(next));
            }
            let again = self.stage().await?;
            if again.is_none_or(|again| again.version != checked.version) {
                return Ok(None);
            }
            // Else somebody has written the stamp since it was read.
            let raised = stamped.raise_epoch(side.backend(), &side.place, next.epoch).await;
            if raised.map_err(on(side.side))?.is_some() {
                return Ok(Some(next));
            }
        }
    }

    /// Whether both markers stand: each step rests on them.
    ///
    /// # Errors
    /// `Conflict` where one does not: the move was begun with another URL, or the server forgot it.
    async fn check_marked(&self) -> Result<()> {
        for side in [&self.old, &self.new] {
            let stands = side.stamped().await?.marker;
            if stands.as_ref() == Some(&self.marker(side.side)) {
                continue;
            }
            return Err(match stands {
                Some(marker) => side.marked_otherwise(Some(&marker)),
                None => {
                    let why = "its marker does not stand there any more: was the move begun with another URL, or \
                               has the server lost data?";
                    on(side.side)(Error::new(ErrorKind::Conflict, why))
                }
            });
        }
        Ok(())
    }

    /// The members, with what they have acknowledged.
    pub(super) async fn members(&self) -> Result<Vec<MemberRecord>> {
        let listed = list_all(self.old.backend(), &self.place.members).await;
        Ok(listed.map_err(on(Side::Old))?.into_iter().map(MemberRecord::from).collect())
    }
}
