//! One step of a move: reads, records and writes, in this order.

use futures_util::FutureExt;

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::gate::Shut;
use super::side::on;
use super::status::is_late;
use super::{Move, MoveBlocker, MoveStatus};
use crate::contracts::Version;
use crate::decide::moving::values::{WholeStage, WholeStep};
use crate::decide::moving::{MovePhase, Side, Stage, Way};
use crate::error::{Error, ErrorKind, Result};
use crate::seen;
use crate::watched::list_all;

/// The result of a try to take a step.
pub(super) enum Stepped {
    /// The move is in this phase now.
    To(Stage),
    /// The phase is the same, but the side on which values are used has changed.
    Freezes,
    /// The values are to be copied from this side.
    Mirrors(Side),
    /// Members have not acknowledged the phase yet.
    Waits(MoveStatus),
    /// Another operator has written the stage: it must be read again.
    Changed,
    /// No further step exists that way: the move is done, or given up.
    Ends,
}

/// The checks that a walk has made, each with the version of the stage that it holds for.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The gate is shut, and no client is outside.
    shut: Option<Version>,
    /// The new side has no copies of values.
    cleared: Option<Version>,
    /// This operator has created this stage.
    made: Option<Version>,
    /// This operator has deleted, or may have deleted, a stage that all members have acknowledged.
    deleted: bool,
}

impl Move {
    /// Tries to take one step from a stage that was read just now.
    pub(super) async fn attempt(
        &self,
        read: Option<Staged>,
        way: Way,
        checked: &mut Checked,
    ) -> Result<Stepped> {
        let begins = read.as_ref().is_none_or(|staged| staged.stage.phase == MovePhase::Old);
        match (way, read) {
            (Way::Forward, read) if begins => self.begins(read.is_some(), checked).await,
            (Way::Forward, Some(staged)) if staged.stage.phase == MovePhase::Done => {
                self.open().await?;
                Ok(Stepped::Ends)
            }
            (Way::Back, Some(staged)) if staged.stage.phase == MovePhase::Done => {
                let why = "the move is done, which is final: to bring the locks back, start a move in the other direction";
                Err(Error::new(ErrorKind::Conflict, why))
            }
            (_, Some(staged)) if !begins => self.next(staged, way).await,
            (_, read) => self.ends(read, checked).await,
        }
    }

    async fn begins(&self, has_stage: bool, checked: &mut Checked) -> Result<Stepped> {
        // A finished move needs no steps.
        if !has_stage && self.old.stamped().await?.marker == Some(self.retired()) {
            return Ok(Stepped::Ends);
        }
        if checked.shut.is_none() {
            self.check_may_begin().await?;
        }
        let Some((staged, made)) = self.first_stage().await? else { return Ok(Stepped::Changed) };
        if staged.stage.phase != MovePhase::Old {
            return Ok(Stepped::Changed);
        }
        if made {
            checked.made = Some(staged.version);
        }
        if checked.shut != Some(staged.version) {
            match self.shut(&staged, checked.made == Some(staged.version)).await? {
                Shut::Behind(version) => checked.shut = Some(version),
                Shut::Changed => return Ok(Stepped::Changed),
            }
        }
        self.next(staged, Way::Forward).await
    }

    /// Gives the move up, once its members know that it is back in the first phase.
    async fn ends(&self, read: Option<Staged>, checked: &mut Checked) -> Result<Stepped> {
        if let Some(staged) = &read {
            let members = self.members().await?;
            if members.iter().any(|member| is_late(member, staged)) {
                return Ok(Stepped::Waits(self.status_at(staged, &members)));
            }
            // Clearing more than once does no harm: another operator's deletion may still arrive.
            if staged.has_copies() && checked.cleared != Some(staged.version) {
                let cleared = self.clears(staged, Side::New).await?;
                checked.cleared = cleared.map(|own| own.version);
                return Ok(Stepped::Changed);
            }
        }
        checked.deleted |= read.is_some();
        let given_up = self.give_up(read.as_ref(), checked.deleted).await?;
        Ok(if given_up { Stepped::Ends } else { Stepped::Changed })
    }

    async fn next(&self, staged: Staged, way: Way) -> Result<Stepped> {
        // Read after the stage: a client that registers later reads this stage, or a later one.
        let members = self.members().await?;
        let acknowledged = members.iter().map(|member| member.acknowledged);
        match staged.whole().step(&staged.version.number(), acknowledged, way) {
            WholeStep::Write(next) => {
                if next.values.open().is_none() {
                    self.check_values_leave(next.values.side()).await?;
                }
                Ok(match self.write_over(&staged, next).await? {
                    Some(written) if written.stage.phase == staged.stage.phase => Stepped::Freezes,
                    Some(written) => Stepped::To(written.stage),
                    None => Stepped::Changed,
                })
            }
            WholeStep::Mirror { from, .. } => Ok(Stepped::Mirrors(from)),
            WholeStep::Waits => Ok(Stepped::Waits(self.status_at(&staged, &members))),
            WholeStep::Ends => Ok(Stepped::Ends),
            WholeStep::NoEpoch => Err(MoveBlocker::NoEpochs.into()),
        }
    }

    /// Writes the same stage again, so that writes of other operators over the version that was read are
    /// refused. Returns `None` if that is not the current version. Its epoch was recorded before the stage
    /// was first written.
    pub(super) async fn write_anew(&self, read: &Staged) -> Result<Option<Staged>> {
        let written = Staged::write(self.old.backend(), &self.place, Some(read), read.whole()).await;
        written.map_err(on(Side::Old))
    }

    /// Copies limits if the next stage needs it, records its epoch, and writes it over the checked one.
    /// Returns `None` if the checked stage is not the current one.
    pub(super) async fn write_over(&self, checked: &Staged, next: WholeStage) -> Result<Option<Staged>> {
        // No client has joined the new side yet, and an earlier use may have left other limits there. The
        // limits are copied again together with values.
        if (checked.stage.phase, next.stage.phase) == (MovePhase::Old, MovePhase::BothByOld) {
            let version = Some(checked.version);
            let stands = || async move { Ok(self.version().await? == version) }.boxed();
            if !self.copying(Side::Old).copy_limits(&stands).await? {
                return Ok(None);
            }
        }
        let Some(stage) = self.record(checked, next.stage).await? else { return Ok(None) };
        let next = WholeStage { stage, ..next };
        let written = Staged::write(self.old.backend(), &self.place, Some(checked), next).await;
        let written = written.map_err(on(Side::Old))?;
        if let Some(written) = written.as_ref().filter(|written| written.stage.phase != checked.stage.phase) {
            self.seen.step(written.stage.phase);
            seen::move_phase(&self.name, written.stage.phase, written.stage.epoch);
        }
        Ok(written)
    }

    /// Makes sure that the stamp of the next stage's side records its epoch before the stage is written
    /// (MIGRATE-EPOCH-RECORDED). Returns the stage to write, or `None` if the checked stage is not the
    /// current one.
    ///
    /// It reads the stamp, then the stage again, and writes the epoch over that stamp. So the epoch is never
    /// raised under a connected plain client: the gate was shut at the checked stage, and opening it writes
    /// the stamp.
    async fn record(&self, checked: &Staged, next: Stage) -> Result<Option<Stage>> {
        self.check_gate().await?;
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
            // Otherwise another client has written the stamp since it was read.
            let raised = stamped.raise_epoch(side.backend(), &side.place, next.epoch).await;
            if raised.map_err(on(side.side))?.is_some() {
                return Ok(Some(next));
            }
        }
    }

    /// Returns the error of a step, unless another operator has changed the stage since it was read. By the
    /// new stage, markers may be gone and other clients connected, so a `Conflict` does not count.
    pub(super) async fn unless_overtaken(&self, read: Option<Version>, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::Conflict && self.version().await? != read {
            return Ok(());
        }
        Err(error)
    }

    /// The current version of the stage.
    pub(super) async fn version(&self) -> Result<Option<Version>> {
        Ok(self.stage().await?.map(|staged| staged.version))
    }

    /// The members, each with the stage that it has acknowledged.
    pub(super) async fn members(&self) -> Result<Vec<MemberRecord>> {
        let listed = list_all(self.old.backend(), &self.place.members).await;
        Ok(listed.map_err(on(Side::Old))?.into_iter().map(MemberRecord::from).collect())
    }
}
