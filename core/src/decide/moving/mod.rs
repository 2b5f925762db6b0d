//! A move between coordinators while locks are held: its phases, the nodes of a hold, and the condition of
//! each step.
//!
//! *The invariant.* At any instant all valid holders share a coordinator (MIGRATE-SHARED-COORDINATOR), whose
//! queue keeps them apart. Neighbouring phases share a coordinator, so no participant may be two phases late.

mod epoch;
pub mod evidence;
pub mod gate;
pub mod obstacles;
mod participant;
pub mod values;

use std::fmt;

use crate::token::Token;

pub use participant::{AcquireNext, Holding, may_acknowledge};

/// One of the two coordinators of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The coordinator before the move. It stores the phase.
    Old,
    /// The coordinator after the move.
    New,
}

impl Side {
    /// Both sides, the old one first.
    pub const BOTH: [Self; 2] = [Self::Old, Self::New];

    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Side::Old => Side::New,
            Side::New => Side::Old,
        }
    }

    /// Returns the name of the side: `old` or `new`.
    pub fn as_str(self) -> &'static str {
        match self {
            Side::Old => "old",
            Side::New => "new",
        }
    }
}

/// A set of sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sides {
    /// Contains the old side.
    pub old: bool,
    /// Contains the new side.
    pub new: bool,
}

impl Sides {
    /// Both sides.
    pub const BOTH: Self = Self { old: true, new: true };

    /// Returns whether the set contains all of `others`.
    pub fn cover(self, others: Self) -> bool {
        (self.old || !others.old) && (self.new || !others.new)
    }

    /// Returns the sides that are not in `others`.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self { old: self.old && !others.old, new: self.new && !others.new }
    }

    /// Returns whether the set contains this side.
    pub fn has(self, side: Side) -> bool {
        match side {
            Side::Old => self.old,
            Side::New => self.new,
        }
    }
}

/// The phase of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MovePhase {
    /// Holds are on the old side.
    Old,
    /// Holds are on both sides; the old side gives the token.
    BothByOld,
    /// Holds are on both sides; the new side gives the token (MIGRATE-TOKEN-SWITCH-PHASE).
    BothByNew,
    /// Holds are on the new side; the move can still be taken back.
    New,
    /// Holds are on the new side, finally. Participants leave the old side, so no operator could ask them
    /// before a step back (MIGRATE-FINAL-PHASE).
    Done,
}

impl fmt::Display for MovePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl MovePhase {
    const ORDER: [Self; 5] = [Self::Old, Self::BothByOld, Self::BothByNew, Self::New, Self::Done];

    /// Returns the name in the stage's cell.
    pub fn as_str(self) -> &'static str {
        match self {
            MovePhase::Old => "old",
            MovePhase::BothByOld => "both-by-old",
            MovePhase::BothByNew => "both-by-new",
            MovePhase::New => "new",
            MovePhase::Done => "done",
        }
    }

    /// Returns the word for display; *both* for the two phases on both sides.
    pub fn word(self) -> &'static str {
        match self {
            MovePhase::BothByOld | MovePhase::BothByNew => "both",
            phase => phase.as_str(),
        }
    }

    /// Parses the name of a phase.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ORDER.into_iter().find(|phase| phase.as_str() == text)
    }

    /// Returns the sides that a hold needs when its acquisition completes.
    pub fn needs(self) -> Sides {
        match self {
            MovePhase::Old => Sides { old: true, new: false },
            MovePhase::BothByOld | MovePhase::BothByNew => Sides::BOTH,
            MovePhase::New | MovePhase::Done => Sides { old: false, new: true },
        }
    }

    /// Returns the sides on which an acquisition may have a node in this phase.
    ///
    /// It may have nodes of this phase or of the step back, or still wait where it began. So these sides have
    /// its settings, and listings show them. In *Done* no listing shows waiters on the old side.
    pub fn spans(self) -> Sides {
        match self {
            MovePhase::Old => Sides { old: true, new: false },
            MovePhase::BothByOld | MovePhase::BothByNew | MovePhase::New => Sides::BOTH,
            MovePhase::Done => Sides { old: false, new: true },
        }
    }

    /// Returns the side that gives the tokens.
    pub fn token(self) -> Side {
        match self {
            MovePhase::Old | MovePhase::BothByOld => Side::Old,
            MovePhase::BothByNew | MovePhase::New | MovePhase::Done => Side::New,
        }
    }

    /// Returns whether a client must be a member to acquire or hold (MIGRATE-MEMBERSHIP-LIVES).
    pub fn needs_membership(self) -> bool {
        self != MovePhase::Done
    }

    /// Returns whether the stage is read again while both nodes are held: the token's side may have changed.
    pub fn is_read_while_held(self) -> bool {
        self.needs() == Sides::BOTH
    }

    fn beside(self, way: Way) -> Option<Self> {
        let at = Self::ORDER.iter().position(|phase| *phase == self)?;
        match way {
            Way::Forward => Self::ORDER.get(at + 1).copied(),
            Way::Back if self == MovePhase::Done => None,
            Way::Back => Self::ORDER.get(at.checked_sub(1)?).copied(),
        }
    }
}

/// The direction of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// Towards the new side.
    Forward,
    /// Back to the old side.
    Back,
}

/// The stage of a move: its phase and epoch, in a cell on the old side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// The phase of the move.
    pub phase: MovePhase,
    /// The current epoch of the tokens.
    pub epoch: u16,
}

/// The step that an operator may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write this stage over the checked version only (MIGRATE-COMPARE-AND-SET).
    Write(Stage),
    /// A participant has not acknowledged the version yet.
    Waits,
    /// No phase exists in that direction.
    Ends,
    /// The token has no room for another epoch.
    NoEpoch,
}

impl Stage {
    /// Returns the stage before a move, with this epoch.
    pub fn before(epoch: u16) -> Self {
        Self { phase: MovePhase::Old, epoch }
    }

    /// Returns the next step of an operator that has read this stage at `version`, and then what each member
    /// has acknowledged (MIGRATE-ACK-NAMES-VERSION).
    pub fn step<V: PartialEq>(
        self,
        version: &V,
        acknowledged: impl IntoIterator<Item = Option<V>>,
        way: Way,
    ) -> Step {
        let Some(phase) = self.phase.beside(way) else { return Step::Ends };
        let switches = phase.token() != self.phase.token();
        let Some(epoch) =
            self.epoch.checked_add(u16::from(switches)).filter(|epoch| *epoch <= Token::MAX_EPOCH)
        else {
            return Step::NoEpoch;
        };
        let mut all = acknowledged.into_iter();
        match all.all(|acknowledged| acknowledged.as_ref() == Some(version)) {
            true => Step::Write(Self { phase, epoch }),
            false => Step::Waits,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phases(from: Stage, way: Way) -> Vec<Stage> {
        let mut stages = vec![from];
        while let Step::Write(next) = stages[stages.len() - 1].step(&1, [Some(1), Some(1)], way) {
            stages.push(next);
        }
        stages
    }

    #[test]
    fn neighbouring_phases_share_a_coordinator_and_no_others_do_without_both() {
        for pair in MovePhase::ORDER.windows(2) {
            let (one, next) = (pair[0].needs(), pair[1].needs());
            assert!(one.old && next.old || one.new && next.new, "{pair:?}");
        }
        assert!(!MovePhase::Old.needs().new && !MovePhase::New.needs().old);
    }

    #[test]
    fn the_epoch_rises_whenever_the_side_of_the_token_changes_also_on_the_way_back() {
        let forward = phases(Stage::before(4), Way::Forward);
        assert_eq!(forward.iter().map(|stage| stage.epoch).collect::<Vec<_>>(), [4, 4, 5, 5, 5]);
        let back = phases(forward[3], Way::Back);
        assert_eq!(back.iter().map(|stage| stage.phase as u8).collect::<Vec<_>>(), [3, 2, 1, 0]);
        assert_eq!(back.iter().map(|stage| stage.epoch).collect::<Vec<_>>(), [5, 5, 6, 6]);
    }

    #[test]
    fn a_step_waits_for_each_participant_to_acknowledge_the_version_that_was_read() {
        let stage = Stage::before(0);
        let next = Step::Write(Stage { phase: MovePhase::BothByOld, epoch: 0 });
        for (acknowledged, expected) in [
            (vec![], next),
            (vec![Some(7)], next),
            (vec![Some(7), None], Step::Waits),
            (vec![Some(6), Some(7)], Step::Waits),
            (vec![Some(8)], Step::Waits),
        ] {
            assert_eq!(stage.step(&7, acknowledged.clone(), Way::Forward), expected, "{acknowledged:?}");
        }
        assert_eq!(stage.step(&7, [], Way::Back), Step::Ends);
    }

    #[test]
    fn done_is_final_and_no_epoch_is_used_twice() {
        let done = Stage { phase: MovePhase::Done, epoch: 1 };
        assert_eq!(done.step(&1, [Some(1)], Way::Back), Step::Ends);
        assert_eq!(done.step(&1, [Some(1)], Way::Forward), Step::Ends);
        let last = Stage { phase: MovePhase::BothByOld, epoch: Token::MAX_EPOCH };
        assert_eq!(last.step(&1, [Some(1)], Way::Forward), Step::NoEpoch);
    }
}
