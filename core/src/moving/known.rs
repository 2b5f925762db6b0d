//! The knowledge of a participant: the stage of its move, and its holds.

use std::sync::{Arc, Weak};

use tokio::sync::watch;

use super::node::MovingNode;
use super::staged::Staged;
use super::values::usage::KnownStage;
use crate::contracts::{Node, Version};
use crate::decide::moving::values::{ValuesAt, WholeStage};
use crate::decide::moving::{MovePhase, Stage, takes_over};
use crate::error::{Error, LostReason};
use crate::seen;

/// The number of holds that are kept before the first search for ended ones.
const FEW: usize = 64;

/// The knowledge of a participant, under one lock. An acquisition completes by the phase that is known at that
/// instant (MIGRATE-DECIDE-AT-END). So its hold is in the list when the participant acknowledges a later phase.
#[derive(Debug)]
pub(super) struct Known {
    // The node of the membership, and whether the stage was read since it exists
    // (MIGRATE-REGISTER-THEN-READ).
    pub(super) member: Option<Arc<dyn Node>>,
    pub(super) is_read: bool,
    // The stage that its membership has acknowledged: its version and its phase.
    pub(super) acknowledged: Option<(Version, MovePhase)>,
    // `None`: no move has begun, or it was given up.
    staged: Option<Staged>,
    // The highest epoch of the tokens that a stage or the stamp of the old side has said: a move that was
    // given up leaves it there (MIGRATE-EPOCH-RECORDED).
    epoch: u16,
    holds: Vec<Weak<MovingNode>>,
    // The number of holds at which the next search for ended ones is worth it.
    crowd: usize,
    // Why it knows nothing yet.
    pub(super) why: Option<Error>,
    // The stage that requests of values use; `None` once the membership has ended.
    values: Option<watch::Sender<Option<KnownStage>>>,
}

impl Known {
    /// Nothing is known yet. `values`: receives, under the lock, the stage that requests of values use.
    pub(super) fn new(values: watch::Sender<Option<KnownStage>>) -> Self {
        Self {
            member: None,
            is_read: false,
            staged: None,
            acknowledged: None,
            epoch: 0,
            holds: Vec::new(),
            crowd: 0,
            why: None,
            values: Some(values),
        }
    }

    /// The stage that was read last; `None` while no move has begun.
    pub(super) fn staged(&self) -> Option<&Staged> {
        self.staged.as_ref()
    }

    /// The phase that was read last.
    pub(super) fn phase(&self) -> MovePhase {
        self.staged.as_ref().map_or(MovePhase::Old, |staged| staged.stage.phase)
    }

    /// The version of the stage that was read last.
    fn version(&self) -> Option<Version> {
        self.staged.as_ref().map(|staged| staged.version)
    }

    /// The epoch of the tokens that are given now.
    pub(super) fn epoch(&self) -> u16 {
        self.epoch
    }

    /// The phase, if it may act by it: it is a member, and has read the stage since.
    pub(super) fn ready(&self) -> Option<MovePhase> {
        let phase = self.phase();
        if !phase.needs_membership() {
            return Some(phase);
        }
        let member = self.member.as_ref().filter(|member| member.state().lost().is_none());
        (member.is_some() && self.is_read).then_some(phase)
    }

    /// Whether it is a member that knows a stage which it has not acknowledged.
    pub(super) fn is_late(&self) -> bool {
        let version = self.version();
        self.member.is_some()
            && self.is_read
            && version.is_some()
            && version != self.acknowledged.map(|(version, _)| version)
    }

    /// Records a read of the stage that began during this membership. Without a stage, the stamp of the old side
    /// was read after it, and has the `epoch`. Reads are applied in the order in which they began.
    pub(super) fn read(&mut self, staged: Option<Staged>, epoch: u16, by: Option<&Arc<dyn Node>>) {
        // A read that began before it registered shows nothing (MIGRATE-REGISTER-THEN-READ).
        self.is_read |= matches!((&self.member, by), (Some(member), Some(by)) if Arc::ptr_eq(member, by));
        self.why = None;
        self.epoch = self.epoch.max(epoch).max(staged.as_ref().map_or(0, |staged| staged.stage.epoch));
        let known = self.staged.as_ref().map(|known| (known.version, known.stage));
        let changes = takes_over(known, staged.as_ref().map(|read| read.version), epoch);
        match &self.staged {
            _ if changes => self.staged = staged,
            Some(known) if known.stage.phase != MovePhase::Done => {
                let (known, now) = (known.version, staged.map(|staged| staged.version));
                if now != Some(known) {
                    seen::stage_went_back(known.number(), now.map(Version::number));
                }
            }
            _ => {}
        }
    }

    /// It is a member from now on, and has read nothing since.
    pub(super) fn enter(&mut self, member: Arc<dyn Node>) {
        (self.member, self.is_read, self.acknowledged) = (Some(member), false, None);
    }

    /// It has lost its membership.
    pub(super) fn leave(&mut self, why: Error) {
        (self.member, self.is_read, self.why) = (None, false, Some(why));
    }

    /// The client is closed, and its membership has ended.
    pub(super) fn close(&mut self) {
        self.values = None;
    }

    /// Sends a change to the requests of values, before anything is acknowledged.
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

    /// What values are asked by: as [`ready`](Self::ready), whether the membership is alive apart.
    fn usable(&self) -> Option<KnownStage> {
        let phase = self.phase();
        if phase.needs_membership() && !(self.member.is_some() && self.is_read) {
            return None;
        }
        let whole = WholeStage {
            stage: Stage { phase, epoch: self.epoch },
            values: self.staged.as_ref().map_or(ValuesAt::Old, |staged| staged.values),
        };
        Some(KnownStage { member: self.member.clone(), version: self.version(), whole })
    }

    /// It holds this from now on.
    pub(super) fn add(&mut self, hold: &Arc<MovingNode>) {
        // Not each time: there may be thousands.
        if self.holds.len() >= self.crowd {
            self.holds.retain(|hold| hold.upgrade().is_some_and(|hold| !hold.is_over()));
            self.crowd = FEW.max(2 * self.holds.len());
        }
        self.holds.push(Arc::downgrade(hold));
    }

    /// The current holds.
    pub(super) fn held(&self) -> Vec<Arc<MovingNode>> {
        self.holds.iter().filter_map(Weak::upgrade).filter(|hold| !hold.is_over()).collect()
    }

    /// The holds at the end of the client, with the holds that the close has ended.
    pub(super) fn held_to_the_end(&self) -> Vec<Arc<MovingNode>> {
        let holds = self.holds.iter().filter_map(Weak::upgrade);
        holds.filter(|hold| matches!(hold.state().lost(), None | Some(LostReason::Closed))).collect()
    }
}
