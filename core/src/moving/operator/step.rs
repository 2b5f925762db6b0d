use futures_util::FutureExt;

use super::super::member::MemberRecord;
use super::super::staged::Staged;
use super::gate::Shut;
use super::late::is_late;
use super::look::{ListValues, Looked};
use super::side::on;
use super::{Move, MoveBlocker, MoveStatus};
use crate::clock::Moment;
use crate::contracts::Version;
use crate::decide::moving::evidence::{Contradiction, MoveId, MoveRecord};
use crate::decide::moving::obstacles::Wanted;
use crate::decide::moving::values::{WholeStage, WholeStep};
use crate::decide::moving::{MovePhase, Side, Stage, Way};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
use crate::seen;
use crate::watched::list_all;

pub(super) enum Stepped {
    /// The move is in this phase now.
    To(Stage),
    /// The phase is the same, but the side of the values has changed.
    Freezes,
    /// Values are to be copied from this side.
    Mirrors(Side),
    /// Members have not acknowledged the phase.
    Waits(MoveStatus),
    Changed,
    /// No further step exists in that direction.
    Ends,
}

/// The checks of a walk, each with its version of the stage.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// The gate is shut, and no client is outside.
    shut: Option<Version>,
    /// The new side has no copies of values.
    cleared: Option<Version>,
    /// This operator has created the stage.
    made: Option<Version>,
    /// Members were late, and nothing else was in the way. The next full look is at this time.
    waits: Option<(Version, Moment)>,
}

impl Move {
    pub(super) async fn attempt(
        &self,
        read: Option<Staged>,
        way: Way,
        checked: &mut Checked,
    ) -> Result<Stepped> {
        let phase = read.as_ref().map_or(MovePhase::Old, |staged| staged.stage.phase);
        let finished = read.is_none() && self.old.stamped().await?.marker == Some(self.retired());
        match way {
            // A finished move needs no steps.
            _ if finished => return Ok(Stepped::Ends),
            Way::Forward if phase == MovePhase::Done => {
                self.open().await?;
                return Ok(Stepped::Ends);
            }
            Way::Back if phase == MovePhase::Done => {
                let why = "the move is done, which is final: to bring the locks back, start a move in the other direction";
                return Err(Error::new(ErrorKind::Conflict, why));
            }
            _ => {}
        }
        if let Some(status) = self.still_waits(read.as_ref(), checked).await? {
            return Ok(Stepped::Waits(status));
        }
        let begins = way == Way::Forward && phase == MovePhase::Old;
        let freezes = read.as_ref().is_some_and(|staged| {
            staged.values.open().is_some() && staged.whole().values_leave(way) && phase != MovePhase::Old
        });
        let values = match begins && checked.shut.is_none() {
            true => ListValues::Always,
            false if freezes => ListValues::WhenAcknowledged,
            false => ListValues::Never,
        };
        let looked = self.look(read, values).await?;
        self.refuse(&looked, Wanted::Step(way))?;
        let version = looked.staged.as_ref().map(|staged| staged.version);
        let stepped = match way {
            Way::Forward if begins => self.begins(looked, checked).await,
            Way::Back if phase == MovePhase::Old => self.ends(looked, checked).await,
            _ => self.next(looked, way).await,
        }?;
        let lease = self.old.coordinator.lease();
        let waits = matches!(&stepped, Stepped::Waits(status) if status.waits_for.iter().all(|late| late.lacks.is_none()));
        checked.waits = version.filter(|_| waits).map(|version| (version, lease.clock().now() + lease.ttl()));
        Ok(stepped)
    }

    /// Waits on, if a member is still late and a recent look found no other obstacle. Most events are other
    /// members' acknowledgements, which need no list of all clients.
    async fn still_waits(&self, read: Option<&Staged>, checked: &Checked) -> Result<Option<MoveStatus>> {
        let (Some(staged), Some((version, until))) = (read, checked.waits) else { return Ok(None) };
        if staged.version != version || self.old.coordinator.lease().clock().now() >= until {
            return Ok(None);
        }
        let members = self.members().await?;
        let says = |member: &MemberRecord| member.says_of(Some(staged.id));
        let is_in_the_way = members.iter().any(|member| says(member).is_in_the_way(Some(version.number())));
        let is_late = members.iter().any(|member| is_late(member, staged));
        Ok((is_late && !is_in_the_way).then(|| self.status_at(staged, &members, &[])))
    }

    async fn begins(&self, looked: Looked, checked: &mut Checked) -> Result<Stepped> {
        if is_given_up(&looked) {
            return self.ends(looked, checked).await;
        }
        let staged = match &looked.staged {
            Some(staged) => staged.clone(),
            None => {
                let Some(made) = self.first_stage(&looked).await? else { return Ok(Stepped::Changed) };
                checked.made = Some(made.version);
                made
            }
        };
        if checked.shut == Some(staged.version) {
            return self.next(looked, Way::Forward).await;
        }
        match self.shut(staged, checked.made).await? {
            Shut::Behind(looked) => {
                checked.shut = looked.staged.as_ref().map(|staged| staged.version);
                self.next(*looked, Way::Forward).await
            }
            Shut::Changed => Ok(Stepped::Changed),
        }
    }

    /// Gives the move up, once its members know the step back to the first phase. An announced end needs no
    /// acknowledgements.
    async fn ends(&self, looked: Looked, checked: &mut Checked) -> Result<Stepped> {
        if let Some(staged) = looked.staged.as_ref().filter(|_| !is_given_up(&looked)) {
            if looked.members.iter().any(|member| is_late(member, staged)) {
                return Ok(Stepped::Waits(self.status_at(staged, &looked.members, &[])));
            }
            // Values are cleared again, since another operator's deletion may arrive late.
            if staged.has_copies() && checked.cleared != Some(staged.version) {
                let cleared = self.clears(staged, Side::New).await?;
                checked.cleared = cleared.map(|own| own.version);
                return Ok(Stepped::Changed);
            }
        }
        let given_up = self.give_up(looked.staged.as_ref()).await?;
        Ok(if given_up { Stepped::Ends } else { Stepped::Changed })
    }

    /// Takes the next step, or completes the announced one (MIGRATE-RECORD-COMPLETED).
    async fn next(&self, looked: Looked, way: Way) -> Result<Stepped> {
        let Some(staged) = &looked.staged else { return Ok(Stepped::Changed) };
        let announced = looked.found.announced();
        let way = announced.and_then(|record| staged.whole().way_to(record.whole())).unwrap_or(way);
        let acknowledged = looked.found.members.iter().map(|says| says.acknowledged);
        let step = staged.whole().step(&staged.version.number(), acknowledged, way);
        let participants = if way == Way::Forward { &looked.participants[..] } else { &[] };
        let waits = || Ok(Stepped::Waits(self.status_at(staged, &looked.members, participants)));
        let is_apart = participants.iter().any(|of| of.lacks().is_some());
        if is_apart && !matches!(step, WholeStep::Ends | WholeStep::NoEpoch) {
            return waits();
        }
        match step {
            WholeStep::Write(next) => self.takes(staged, next).await,
            // The copy was compared before the announcement, and the values are frozen since.
            WholeStep::Mirror { then, .. } if announced.is_some() => self.takes(staged, then).await,
            WholeStep::Mirror { from, .. } => Ok(Stepped::Mirrors(from)),
            WholeStep::Waits => waits(),
            WholeStep::Ends => Ok(Stepped::Ends),
            WholeStep::NoEpoch => Err(MoveBlocker::NoEpochs.into()),
        }
    }

    async fn takes(&self, staged: &Staged, next: WholeStage) -> Result<Stepped> {
        Ok(match self.write_over(staged, next).await? {
            Some(written) if written.stage.phase == staged.stage.phase => Stepped::Freezes,
            Some(written) => Stepped::To(written.stage),
            None => Stepped::Changed,
        })
    }

    /// Writes the same stage again, so that other writes over the read version are refused; `None` if the
    /// version has changed. Its epoch is already recorded.
    pub(super) async fn write_anew(&self, read: &Staged) -> Result<Option<Staged>> {
        self.write_stage(Some(read), read.id, read.whole(), false).await
    }

    /// As [`Staged::write`].
    pub(super) async fn write_stage(
        &self,
        over: Option<&Staged>,
        id: MoveId,
        whole: WholeStage,
        copies: bool,
    ) -> Result<Option<Staged>> {
        let written = Staged::write(self.old.backend(), &self.place, over, id, whole, copies).await;
        written.map_err(on(Side::Old))
    }

    /// Copies limits if needed, announces the stage, and writes it over the checked one; `None` if the
    /// version has changed. The caller has looked at both sides.
    pub(super) async fn write_over(&self, checked: &Staged, next: WholeStage) -> Result<Option<Staged>> {
        // An earlier use may have left other limits on the new side, which no client has joined yet. They are
        // copied again with the values.
        if (checked.stage.phase, next.stage.phase) == (MovePhase::Old, MovePhase::BothByOld) {
            let version = Some(checked.version);
            let stands = || async move { Ok(self.version().await? == version) }.boxed();
            if !self.copying(Side::Old).copy_limits(&stands).await? {
                return Ok(None);
            }
        }
        let mut next = next;
        if next != checked.whole() {
            let Some(announced) = self.announce(checked, next).await? else { return Ok(None) };
            next = announced;
        }
        let written = self.write_stage(Some(checked), checked.id, next, false).await?;
        if let Some(written) = written.as_ref().filter(|written| written.stage.phase != checked.stage.phase) {
            self.seen.step(written.stage.phase);
            seen::move_phase(&self.name, written.stage.phase, written.stage.epoch);
        }
        Ok(written)
    }

    /// Announces the next stage in the record (MIGRATE-RECORD-FIRST), and its epoch in the stamp of its
    /// tokens' side (MIGRATE-EPOCH-RECORDED). Returns the stage to write; `None` if the version has changed,
    /// or another step is announced.
    ///
    /// Reads the stamps, then the stage again, and writes over those stamps: so at most one change of a stage
    /// is announced. No plain client is connected then, since opening the gate writes the stamp too.
    async fn announce(&self, checked: &Staged, next: WholeStage) -> Result<Option<WholeStage>> {
        loop {
            let [old, new] = [self.old.stamped().await?, self.new.stamped().await?];
            let record = self.record_in(&new).filter(|record| record.id == checked.id);
            let record = record.ok_or(MoveBlocker::Contradicts(Contradiction::RecordLost))?;
            let WholeStage { stage, values } = next;
            let announces = (record.to, record.values) == (Some(stage.phase), values);
            if record.is_pending(checked.read_as()) && !announces {
                return Ok(None);
            }
            let by_old = stage.phase.token() == Side::Old;
            let stage = stage.above(if by_old { old.epoch } else { new.epoch });
            if self.version().await? != Some(checked.version) {
                return Ok(None);
            }
            // Otherwise another client has written the stamp since.
            if by_old && old.epoch < stage.epoch {
                let raised = Stamped { epoch: stage.epoch, ..old };
                if self.old.write(raised).await?.is_none() {
                    continue;
                }
            }
            let (from, to) = (checked.stage.phase, Some(stage.phase));
            let (over, epoch) = (checked.version.number(), stage.epoch);
            let announced = MoveRecord { id: checked.id, from, to, values, over, epoch };
            let raised = if by_old { new.epoch } else { new.epoch.max(epoch) };
            if announced == record && raised == new.epoch {
                return Ok(Some(WholeStage { stage, values }));
            }
            let changed = Stamped { epoch: raised, arrival: Some(self.arrival(announced)), ..new };
            if self.new.write(changed).await?.is_some() {
                return Ok(Some(WholeStage { stage, values }));
            }
        }
    }

    /// Returns the error of a step, but no `Conflict` if another operator has changed the stage: its markers
    /// and clients may differ.
    pub(super) async fn unless_overtaken(&self, read: Option<Version>, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::Conflict && self.version().await? != read {
            return Ok(());
        }
        Err(error)
    }

    pub(super) async fn version(&self) -> Result<Option<Version>> {
        Ok(self.stage().await?.map(|staged| staged.version))
    }

    /// The members, with their reports.
    pub(super) async fn members(&self) -> Result<Vec<MemberRecord>> {
        let listed = list_all(self.old.backend(), &self.place.members).await;
        Ok(listed.map_err(on(Side::Old))?.into_iter().map(MemberRecord::from).collect())
    }
}

fn is_given_up(looked: &Looked) -> bool {
    looked.found.announced().is_some_and(|record| record.to.is_none())
}
