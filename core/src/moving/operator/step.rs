//! One step of a move: reads, records and writes, in this order.

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
use crate::decide::moving::evidence::{Contradiction, MoveRecord};
use crate::decide::moving::obstacles::Wanted;
use crate::decide::moving::values::{WholeStage, WholeStep};
use crate::decide::moving::{MovePhase, Side, Stage, Way};
use crate::error::{Error, ErrorKind, Result};
use crate::registry::Stamped;
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
    /// At this stage members were late, and nothing else was in the way. It is looked at again at this time.
    waits: Option<(Version, Moment)>,
}

impl Move {
    /// Tries to take one step from a stage that was read just now.
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

    /// Waits on, if a member is still late at a stage at which nothing else was in the way a short time ago. Most
    /// events are acknowledgements of other members: they need no list of all clients.
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

    /// Gives the move up, once its members know that it is back in the first phase. An announced end needs no
    /// other answer.
    async fn ends(&self, looked: Looked, checked: &mut Checked) -> Result<Stepped> {
        if let Some(staged) = looked.staged.as_ref().filter(|_| !is_given_up(&looked)) {
            if looked.members.iter().any(|member| is_late(member, staged)) {
                return Ok(Stepped::Waits(self.status_at(staged, &looked.members, &[])));
            }
            // Clearing more than once does no harm: another operator's deletion may still arrive.
            if staged.has_copies() && checked.cleared != Some(staged.version) {
                let cleared = self.clears(staged, Side::New).await?;
                checked.cleared = cleared.map(|own| own.version);
                return Ok(Stepped::Changed);
            }
        }
        let given_up = self.give_up(looked.staged.as_ref()).await?;
        Ok(if given_up { Stepped::Ends } else { Stepped::Changed })
    }

    /// Takes the next step, or completes the one that was announced (MIGRATE-RECORD-COMPLETED).
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
            // The copy was compared before the step was announced, and is unchanged since: the values are frozen.
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

    /// Writes the same stage again, so that writes of other operators over the version that was read are
    /// refused. Returns `None` if that is not the current version. Its epoch was recorded before the stage
    /// was first written.
    pub(super) async fn write_anew(&self, read: &Staged) -> Result<Option<Staged>> {
        let written =
            Staged::write(self.old.backend(), &self.place, Some(read), read.id, read.whole(), false).await;
        written.map_err(on(Side::Old))
    }

    /// Copies limits if the next stage needs it, announces the stage, and writes it over the checked one.
    /// Returns `None` if the checked stage is not the current one. The caller has looked at both sides.
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
        let mut next = next;
        if next != checked.whole() {
            let Some(announced) = self.announce(checked, next).await? else { return Ok(None) };
            next = announced;
        }
        let written =
            Staged::write(self.old.backend(), &self.place, Some(checked), checked.id, next, false).await;
        let written = written.map_err(on(Side::Old))?;
        if let Some(written) = written.as_ref().filter(|written| written.stage.phase != checked.stage.phase) {
            self.seen.step(written.stage.phase);
            seen::move_phase(&self.name, written.stage.phase, written.stage.epoch);
        }
        Ok(written)
    }

    /// Announces the next stage in the record of the new side (MIGRATE-RECORD-FIRST), and writes its epoch into
    /// the stamp of its tokens' side (MIGRATE-EPOCH-RECORDED). Returns the stage to write, or `None` if the
    /// checked stage is not the current one, or another step was announced over it.
    ///
    /// It reads the stamps, then the stage again, and writes over those stamps. So at most one change of a stage
    /// is announced, and the epoch is never raised under a connected plain client: the gate was shut at the
    /// checked stage, and opening it writes the stamp.
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
            // Otherwise another client has written the stamp since it was read.
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

/// Whether another operator has announced that it gives up the stage that was read.
fn is_given_up(looked: &Looked) -> bool {
    looked.found.announced().is_some_and(|record| record.to.is_none())
}
