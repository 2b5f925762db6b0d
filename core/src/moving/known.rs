//! The knowledge of a participant: the stage, and its holds.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::node::MovingNode;
use super::staged::Staged;
use super::values::usage::KnownStage;
use crate::contracts::{Node, Version};
use crate::decide::moving::evidence::{Contradiction, MoveId, MoveVerdict, StageRead, continues};
use crate::decide::moving::obstacles::MemberSays;
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Stage};
use crate::error::{Error, ErrorKind, LostReason};
use crate::seen;
use crate::support::Sweeps;

/// A read of the stage, with a verdict if the record was read too.
pub(super) struct Read {
    pub(super) staged: Option<Staged>,
    pub(super) epoch: u16,
    pub(super) verdict: Option<MoveVerdict>,
}

/// The knowledge of a participant, under one lock. An acquisition completes by the phase known then
/// (MIGRATE-DECIDE-AT-END), so its hold is listed before a later acknowledgement.
#[derive(Debug)]
pub(super) struct Known {
    // The member node, and whether the stage was read since it exists (MIGRATE-REGISTER-THEN-READ).
    pub(super) member: Option<Arc<dyn Node>>,
    pub(super) is_read: bool,
    // The stage that this membership has acknowledged.
    acknowledged: Option<StageRead>,
    // The last written report.
    pub(super) said: MemberSays,
    // `None`: no move has begun, or it was given up.
    staged: Option<Staged>,
    verdict: MoveVerdict,
    // The version that was compared with the record.
    compared: Option<Version>,
    // The highest epoch of a stage or of the old side's stamp: a move that was given up leaves its epoch
    // there (MIGRATE-EPOCH-RECORDED).
    epoch: u16,
    holds: Vec<Weak<MovingNode>>,
    sweeps: Sweeps,
    // The reason why it knows nothing yet.
    pub(super) why: Option<Error>,
    // Receives, under the lock, the stage for requests of values; `None` once the membership has ended.
    values: Option<watch::Sender<Option<KnownStage>>>,
}

impl Known {
    pub(super) fn new(values: watch::Sender<Option<KnownStage>>) -> Self {
        Self {
            member: None,
            is_read: false,
            staged: None,
            acknowledged: None,
            said: MemberSays::default(),
            verdict: MoveVerdict::NoMove,
            compared: None,
            epoch: 0,
            holds: Vec::new(),
            sweeps: Sweeps::default(),
            why: None,
            values: Some(values),
        }
    }

    pub(super) fn staged(&self) -> Option<&Staged> {
        self.staged.as_ref()
    }

    /// The phase that it acts by, unless it has [stopped](Self::stopped).
    pub(super) fn phase(&self) -> MovePhase {
        match (self.verdict, &self.staged) {
            (MoveVerdict::Done, _) => MovePhase::Done,
            (MoveVerdict::Awaits, _) | (_, None) => MovePhase::Old,
            (_, Some(staged)) => staged.stage.phase,
        }
    }

    pub(super) fn stopped(&self) -> Option<Contradiction> {
        match self.verdict {
            MoveVerdict::Stops(found) => Some(found),
            _ => None,
        }
    }

    pub(super) fn stop(&self) -> Option<Error> {
        let found = self.stopped()?;
        let next = match found {
            Contradiction::RecordLost => {
                "compare the `to` of this client with the operator's; if it is the same, "
            }
            _ => "",
        };
        let why = format!(
            "this client acquires nothing while the sides of its move contradict each other: {found}: {next}see \
             `latchwork migrate plan` (Move::plan), and let an operator restore it (`latchwork migrate repair`, \
             Move::repair)"
        );
        Some(Error::new(ErrorKind::Misconfigured, why))
    }

    /// Whether it reads again when the record changes.
    pub(super) fn is_unsettled(&self) -> bool {
        matches!(self.verdict, MoveVerdict::Awaits | MoveVerdict::Stops(_))
    }

    /// The report that its member node should have, and the identity of its move.
    pub(super) fn says(&self) -> (Option<MoveId>, MemberSays) {
        let id = self.staged.as_ref().map(|staged| staged.id);
        let acknowledged = self.acknowledged.filter(|stage| Some(stage.id) == id).map(|stage| stage.version);
        let stopped = self.stopped();
        let knows = stopped.and(self.version()).map(Version::number);
        (id, MemberSays { acknowledged, knows, stopped })
    }

    pub(super) fn acknowledges(&mut self, stage: StageRead) -> Option<StageRead> {
        self.said = MemberSays { acknowledged: Some(stage.version), ..MemberSays::default() };
        self.acknowledged.replace(stage)
    }

    /// Whether it has acknowledged the known stage.
    pub(super) fn has_acknowledged(&self) -> bool {
        self.staged.is_some() && self.staged.as_ref().map(Staged::read_as) == self.acknowledged
    }

    /// Whether a stage can be followed without the record: it is the known one, or a later one of the same
    /// move. Before an acknowledgement (`to_acknowledge`) the record is needed, except in *Old*.
    pub(super) fn follows(&self, read: Option<&Staged>, to_acknowledge: bool) -> bool {
        let (Some(known), Some(read), MoveVerdict::Follows) = (&self.staged, read, self.verdict) else {
            return self.verdict == MoveVerdict::Done;
        };
        let is_later = self.is_read && known.id == read.id && continues(known.read_as(), read.read_as());
        let is_compared = self.compared == Some(read.version) || read.stage.phase == MovePhase::Old;
        is_later && (!to_acknowledge || is_compared)
    }

    fn version(&self) -> Option<Version> {
        self.staged.as_ref().map(|staged| staged.version)
    }

    pub(super) fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The phase, if it may act: it is a member, and has read the stage since.
    pub(super) fn ready(&self) -> Option<MovePhase> {
        let phase = self.phase();
        if !phase.needs_membership() {
            return Some(phase);
        }
        if self.stopped().is_some() {
            return None;
        }
        let member = self.member.as_ref().filter(|member| member.state().lost().is_none());
        (member.is_some() && self.is_read).then_some(phase)
    }

    /// Whether it is a member that has not acknowledged the known stage.
    pub(super) fn is_late(&self) -> bool {
        self.member.is_some() && self.is_read && self.staged.is_some() && !self.has_acknowledged()
    }

    /// Records a read of the stage, with its verdict, or `None` if it [needed none](Self::follows). `by`: the
    /// membership when the read began. Reads are recorded in the order of their begin.
    pub(super) fn read(&mut self, read: Read, by: Option<&Arc<dyn Node>>) {
        // A read from before the registration shows nothing (MIGRATE-REGISTER-THEN-READ).
        self.is_read |= matches!((&self.member, by), (Some(member), Some(by)) if Arc::ptr_eq(member, by));
        self.why = None;
        if self.verdict == MoveVerdict::Done {
            // *Done* is final. Its cell is deleted when all participants have left.
            return;
        }
        let Read { staged, epoch, verdict } = read;
        let stood = self.stopped();
        self.compared = verdict.and(staged.as_ref().map(|staged| staged.version)).or(self.compared);
        self.verdict = verdict.unwrap_or(MoveVerdict::Follows);
        match self.stopped() {
            // The known stage is later than this one, or the only one.
            Some(found) if stood != Some(found) => seen::move_contradicts(found),
            Some(_) => {}
            None => {
                self.epoch =
                    self.epoch.max(epoch).max(staged.as_ref().map_or(0, |staged| staged.stage.epoch));
                self.staged = staged;
                if self.phase() == MovePhase::Done {
                    self.verdict = MoveVerdict::Done;
                }
            }
        }
    }

    /// It becomes a member, and has read nothing since.
    pub(super) fn enter(&mut self, member: Arc<dyn Node>) {
        (self.member, self.is_read, self.acknowledged) = (Some(member), false, None);
        self.said = MemberSays::default();
    }

    pub(super) fn leave(&mut self, why: Error) {
        (self.member, self.is_read, self.why) = (None, false, Some(why));
    }

    pub(super) fn close(&mut self) {
        self.values = None;
    }

    /// Sends a change to requests of values before the acknowledgement.
    pub(super) fn tell_values(&self) {
        if let Some(values) = &self.values {
            let now = self.usable();
            values.send_if_modified(|told| {
                let changes = match (&*told, &now) {
                    (Some(told), Some(now)) => !told.is_same(now),
                    (None, None) => false,
                    _ => true,
                };
                if changes {
                    *told = now;
                }
                changes
            });
        }
    }

    /// The stage for requests of values. Unlike [`ready`](Self::ready), it does not ask whether the
    /// membership is alive.
    fn usable(&self) -> Option<KnownStage> {
        let phase = self.phase();
        let is_member = self.member.is_some() && self.is_read && self.stopped().is_none();
        if phase.needs_membership() && !is_member {
            return None;
        }
        let staged = self.staged.as_ref().filter(|staged| staged.stage.phase == phase);
        let values = staged.map_or_else(|| ValuesAt::from(phase.token()), |staged| staged.values);
        let whole = WholeStage { stage: Stage { phase, epoch: self.epoch }, values };
        Some(KnownStage { member: self.member.clone(), version: self.version(), whole })
    }

    pub(super) fn add(&mut self, hold: &Arc<MovingNode>) {
        // There may be thousands, so not each time.
        if self.sweeps.is_due(self.holds.len()) {
            self.holds.retain(|hold| hold.upgrade().is_some_and(|hold| !hold.is_over()));
            self.sweeps.swept(self.holds.len());
        }
        self.holds.push(Arc::downgrade(hold));
    }

    pub(super) fn held(&self) -> Vec<Arc<MovingNode>> {
        self.holds.iter().filter_map(Weak::upgrade).filter(|hold| !hold.is_over()).collect()
    }

    /// The holds at the end of the client, and the holds that the close has ended.
    pub(super) fn held_to_the_end(&self) -> Vec<Arc<MovingNode>> {
        let holds = self.holds.iter().filter_map(Weak::upgrade);
        holds.filter(|hold| matches!(hold.state().lost(), None | Some(LostReason::Closed))).collect()
    }
}
