//! A move from one coordinator to another while locks are held: its phases, the nodes that a hold needs in
//! each phase, and the condition for the next phase.
//!
//! *The invariant.* At any instant all valid holders have a node on one coordinator that they share
//! (MIGRATE-SHARED-COORDINATOR), so that the queue there keeps them apart, with any admission rule.
//! Neighbouring phases share a coordinator; so no participant may be two phases late.

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
    /// The coordinator of the locks before the move. The phase is stored there.
    Old,
    /// The coordinator of the locks after the move.
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
    /// Whether the old side is in the set.
    pub old: bool,
    /// Whether the new side is in the set.
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

/// The phase of a move. A move goes from a phase to its neighbour, and skips none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MovePhase {
    /// Holds are on the old side.
    Old,
    /// Holds are on both sides, and the old side gives the token.
    BothByOld,
    /// Holds are on both sides, and the new side gives the token. The switch is a separate phase
    /// (MIGRATE-TOKEN-SWITCH-PHASE).
    BothByNew,
    /// Holds are on the new side. The move can still be taken back.
    New,
    /// Holds are on the new side, finally: participants no longer need the old side, so they could not be
    /// asked before a step back (MIGRATE-FINAL-PHASE).
    Done,
}

impl fmt::Display for MovePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl MovePhase {
    const ORDER: [Self; 5] = [Self::Old, Self::BothByOld, Self::BothByNew, Self::New, Self::Done];

    /// Returns the name of the phase, as the stage's cell stores it.
    pub fn as_str(self) -> &'static str {
        match self {
            MovePhase::Old => "old",
            MovePhase::BothByOld => "both-by-old",
            MovePhase::BothByNew => "both-by-new",
            MovePhase::New => "new",
            MovePhase::Done => "done",
        }
    }

    /// Returns the word for display: *old*, *both* for the two phases on both sides, *new*, *done*.
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

    /// Returns the sides on which a hold must have a node when its acquisition completes.
    pub fn needs(self) -> Sides {
        match self {
            MovePhase::Old => Sides { old: true, new: false },
            MovePhase::BothByOld | MovePhase::BothByNew => Sides::BOTH,
            MovePhase::New | MovePhase::Done => Sides { old: false, new: true },
        }
    }

    /// Returns the sides on which an acquisition may have a node in this phase.
    ///
    /// It may hold the nodes of this phase or of the step back, or still wait on the side where it began. So
    /// everything that acquisitions read must be on these sides, and a listing shows them. In *Done* the old
    /// side is not needed, so waiters there are not looked for.
    pub fn spans(self) -> Sides {
        match self {
            MovePhase::Old => Sides { old: true, new: false },
            MovePhase::BothByOld | MovePhase::BothByNew | MovePhase::New => Sides::BOTH,
            MovePhase::Done => Sides { old: false, new: true },
        }
    }

    /// Returns the side of the token.
    pub fn token(self) -> Side {
        match self {
            MovePhase::Old | MovePhase::BothByOld => Side::Old,
            MovePhase::BothByNew | MovePhase::New | MovePhase::Done => Side::New,
        }
    }

    /// Returns whether a client that acquires or holds must be a member on the old side
    /// (MIGRATE-MEMBERSHIP-LIVES).
    pub fn needs_membership(self) -> bool {
        self != MovePhase::Done
    }

    /// Returns whether phase and epoch are read again while both nodes are held: the token's side may have changed.
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

/// The phase and the epoch of a move, as the versioned cell on the old side stores them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// The phase of the move.
    pub phase: MovePhase,
    /// The epoch of the tokens that are given now.
    pub epoch: u16,
}

/// The step that an operator may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write this stage over the version that was checked, and over no other
    /// (MIGRATE-COMPARE-AND-SET).
    Write(Stage),
    /// A participant has not acknowledged that version yet.
    Waits,
    /// No phase exists that way.
    Ends,
    /// The token has no bits left for another epoch.
    NoEpoch,
}

impl Stage {
    /// Returns the stage before a move begins, on a coordinator whose tokens have this epoch.
    pub fn before(epoch: u16) -> Self {
        Self { phase: MovePhase::Old, epoch }
    }

    /// Returns the next step of an operator that has read this stage at a version, and then the versions that
    /// the registered participants have acknowledged (MIGRATE-ACK-NAMES-VERSION). An entry is `None` for a
    /// participant that has acknowledged nothing yet.
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
