//! The values of a move: the side of their use, and when it may change.
//!
//! *The invariant.* At any instant all values are used on one side. When the side changes, the next side has
//! a copy that no client has used (MIGRATE-VALUES-FREEZE). So a read shows all changes that were confirmed or
//! read before it, and each change is applied once.

use super::{MovePhase, Side, Stage, Step, Way};

/// The side of a move that has the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ValuesAt {
    /// Values are used on the old side.
    Old,
    /// Values are frozen on the old side while they are copied.
    LeavingOld,
    /// Values are used on the new side.
    New,
    /// Values are frozen on the new side while they are copied back.
    LeavingNew,
}

impl From<Side> for ValuesAt {
    fn from(side: Side) -> Self {
        match side {
            Side::Old => ValuesAt::Old,
            Side::New => ValuesAt::New,
        }
    }
}

impl ValuesAt {
    /// Returns the side of their use; `None` while they are copied.
    pub fn open(self) -> Option<Side> {
        match self {
            ValuesAt::Old => Some(Side::Old),
            ValuesAt::New => Some(Side::New),
            ValuesAt::LeavingOld | ValuesAt::LeavingNew => None,
        }
    }

    /// Returns the side that has the values.
    pub fn side(self) -> Side {
        match self {
            ValuesAt::Old | ValuesAt::LeavingOld => Side::Old,
            ValuesAt::New | ValuesAt::LeavingNew => Side::New,
        }
    }

    /// Returns the name in the stage's cell.
    pub fn as_str(self) -> &'static str {
        match self {
            ValuesAt::Old => "old",
            ValuesAt::LeavingOld => "leaving-old",
            ValuesAt::New => "new",
            ValuesAt::LeavingNew => "leaving-new",
        }
    }

    /// Parses such a name.
    pub fn parse(text: &str) -> Option<Self> {
        [ValuesAt::Old, ValuesAt::LeavingOld, ValuesAt::New, ValuesAt::LeavingNew]
            .into_iter()
            .find(|values| values.as_str() == text)
    }

    /// Returns whether the values may be there in this phase: on the tokens' side, and leaving only while
    /// holds are on both sides.
    pub fn fits(self, phase: MovePhase) -> bool {
        self.side() == phase.token() && (self.open().is_some() || phase.is_read_while_held())
    }

    /// Returns whether a participant may acknowledge this (MIGRATE-VALUES-ACK-WAITS). `under_way`: its open
    /// requests of values. It sends no more until it knows a later stage.
    pub fn may_acknowledge(self, under_way: usize) -> bool {
        self.open().is_some() || under_way == 0
    }
}

/// Returns whether an answer counts: while the participant is a member, no operator takes a step without it
/// (MIGRATE-VALUES-LIVE-MEMBER). Otherwise a change has an unknown outcome, and a read no result.
pub fn answer_counts(phase: MovePhase, is_member: bool) -> bool {
    is_member || !phase.needs_membership()
}

/// The stage with the side of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WholeStage {
    /// The stage of the holds.
    pub stage: Stage,
    /// The side of the values.
    pub values: ValuesAt,
}

/// The step that an operator may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WholeStep {
    /// Write this stage over the checked version only.
    Write(WholeStage),
    /// Copy one side to the other, and then write a stage.
    Mirror {
        /// The side to copy.
        from: Side,
        /// The stage after the copy.
        then: WholeStage,
    },
    /// A participant has not acknowledged the version yet.
    Waits,
    /// No stage exists in that direction.
    Ends,
    /// The token has no room for another epoch.
    NoEpoch,
}

impl WholeStage {
    /// Returns the stage before a move, with this epoch.
    pub fn before(epoch: u16) -> Self {
        Self { stage: Stage::before(epoch), values: ValuesAt::Old }
    }

    /// Returns the next step, as [`Stage::step`]. Values leave in a separate step, and arrive with the next
    /// phase. If an operator turns back during a copy, clients use them where they are.
    pub fn step<V: PartialEq>(
        self,
        version: &V,
        acknowledged: impl IntoIterator<Item = Option<V>>,
        way: Way,
    ) -> WholeStep {
        let stays = |values| WholeStep::Write(Self { values, ..self });
        let beside = self.stage.step(version, acknowledged, way);
        let Step::Write(next) = beside else {
            return match beside {
                Step::Waits => WholeStep::Waits,
                Step::NoEpoch => WholeStep::NoEpoch,
                Step::Write(_) | Step::Ends => WholeStep::Ends,
            };
        };
        let moved = |values| Self { stage: next, values };
        match (self.values, way) {
            (ValuesAt::LeavingOld, Way::Back) => stays(ValuesAt::Old),
            (ValuesAt::LeavingNew, Way::Forward) => stays(ValuesAt::New),
            (ValuesAt::LeavingOld, Way::Forward) => {
                WholeStep::Mirror { from: Side::Old, then: moved(ValuesAt::New) }
            }
            (ValuesAt::LeavingNew, Way::Back) => {
                WholeStep::Mirror { from: Side::New, then: moved(ValuesAt::Old) }
            }
            (values, _) if next.phase.token() == values.side() => WholeStep::Write(moved(values)),
            (ValuesAt::Old, _) => stays(ValuesAt::LeavingOld),
            (ValuesAt::New, _) => stays(ValuesAt::LeavingNew),
        }
    }

    /// Returns the direction of the step to this stage, if any. The epoch is ignored.
    pub fn way_to(self, next: Self) -> Option<Way> {
        let leads = |way: &Way| match self.step(&(), [], *way) {
            WholeStep::Write(then) | WholeStep::Mirror { then, .. } => {
                (then.stage.phase, then.values) == (next.stage.phase, next.values)
            }
            _ => false,
        };
        [Way::Forward, Way::Back].into_iter().find(leads)
    }

    /// Returns whether the values leave their side before the next phase.
    pub fn values_leave(self, way: Way) -> bool {
        match self.step(&(), [], way) {
            WholeStep::Write(next) => next.values.open().is_none(),
            other => matches!(other, WholeStep::Mirror { .. }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages(from: WholeStage, way: Way) -> Vec<WholeStage> {
        let mut stages = vec![from];
        loop {
            match stages[stages.len() - 1].step(&1, [Some(1)], way) {
                WholeStep::Write(next) | WholeStep::Mirror { then: next, .. } => stages.push(next),
                WholeStep::Ends => return stages,
                other => panic!("{other:?} behind {stages:?}"),
            }
        }
    }

    fn shown(stages: &[WholeStage]) -> Vec<(u8, ValuesAt, u16)> {
        stages.iter().map(|whole| (whole.stage.phase as u8, whole.values, whole.stage.epoch)).collect()
    }

    #[test]
    fn values_leave_in_a_separate_step_and_move_with_the_tokens() {
        use ValuesAt::{LeavingNew, LeavingOld, New, Old};
        let forward = stages(WholeStage::before(4), Way::Forward);
        assert_eq!(
            shown(&forward),
            [(0, Old, 4), (1, Old, 4), (1, LeavingOld, 4), (2, New, 5), (3, New, 5), (4, New, 5)]
        );
        let back = stages(forward[4], Way::Back);
        assert_eq!(shown(&back), [(3, New, 5), (2, New, 5), (2, LeavingNew, 5), (1, Old, 6), (0, Old, 6)]);
        for whole in forward.iter().chain(&back) {
            assert!(whole.values.fits(whole.stage.phase), "{whole:?}");
        }
        assert!(!LeavingOld.fits(MovePhase::Old) && !New.fits(MovePhase::BothByOld));
        assert!(!LeavingNew.fits(MovePhase::New) && !Old.fits(MovePhase::New));
        let leave: Vec<bool> =
            forward.iter().chain(&back).map(|whole| whole.values_leave(Way::Forward)).collect();
        let (there, home) = ([false, true, true, false, false, false], [false, false, false, true, false]);
        assert_eq!(leave, [&there[..], &home].concat());
        let leave: Vec<bool> = back.iter().map(|whole| whole.values_leave(Way::Back)).collect();
        assert_eq!(leave, [false, true, true, false, false]);
        for values in [Old, LeavingOld, New, LeavingNew] {
            assert_eq!(ValuesAt::parse(values.as_str()), Some(values));
        }
        assert_eq!(ValuesAt::parse("leaving"), None);
    }

    #[test]
    fn reversal_during_a_copy_returns_to_the_side_with_the_values() {
        let forward = stages(WholeStage::before(0), Way::Forward);
        assert_eq!(forward[2].step(&1, [], Way::Back), WholeStep::Write(forward[1]));
        let back = stages(forward[4], Way::Back);
        assert_eq!(back[2].step(&1, [], Way::Forward), WholeStep::Write(back[1]));
    }

    #[test]
    fn each_step_waits_for_each_member_and_a_copy_is_named_as_one() {
        let whole = stages(WholeStage::before(0), Way::Forward)[2];
        for way in [Way::Forward, Way::Back] {
            assert_eq!(whole.step(&2, [Some(2), Some(1)], way), WholeStep::Waits);
        }
        let is_copy =
            matches!(whole.step(&2, [Some(2)], Way::Forward), WholeStep::Mirror { from: Side::Old, .. });
        assert!(is_copy);
    }

    #[test]
    fn each_step_is_found_again_by_the_stage_to_which_it_leads() {
        let forward = stages(WholeStage::before(0), Way::Forward);
        for (way, stages) in [(Way::Forward, &forward), (Way::Back, &stages(forward[4], Way::Back))] {
            for pair in stages.windows(2) {
                assert_eq!(pair[0].way_to(pair[1]), Some(way), "{pair:?}");
            }
        }
        assert_eq!(forward[0].way_to(forward[0]), None);
        assert_eq!(forward[0].way_to(forward[2]), None);
    }

    #[test]
    fn nothing_is_under_way_when_a_copy_is_acknowledged_and_only_members_count_answers() {
        assert!(ValuesAt::Old.may_acknowledge(3) && ValuesAt::LeavingNew.may_acknowledge(0));
        assert!(!ValuesAt::LeavingOld.may_acknowledge(1));
        assert!(answer_counts(MovePhase::New, true) && answer_counts(MovePhase::Done, false));
        assert!(!answer_counts(MovePhase::New, false));
    }
}
