//! A move from one coordinator to another while locks are held: its phases, what a hold needs in
//! each, and when the next one may begin.
//!
//! *The invariant.* At any instant all valid holders have a node on one coordinator that they share
//! (MIGRATE-SHARED-COORDINATOR), so that the queue there keeps them apart, whatever its admission
//! rule. Neighbouring phases share one; so nobody may be two phases behind.

mod epoch;
pub mod gate;
mod participant;
pub mod values;

use std::fmt;

use crate::token::Token;

pub use participant::{AcquireNext, Holding, may_acknowledge, takes_over};

/// One of the two coordinators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Where the locks are before the move. The phase is kept there.
    Old,
    /// Where they are after it.
    New,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Side::Old => Side::New,
            Side::New => Side::Old,
        }
    }

    /// The word for it, for people and in what the program answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Side::Old => "old",
            Side::New => "new",
        }
    }
}

/// Some of the two coordinators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sides {
    /// The old one is among them.
    pub old: bool,
    /// The new one is among them.
    pub new: bool,
}

impl Sides {
    /// Both.
    pub const BOTH: Self = Self { old: true, new: true };

    /// Whether all of `others` are among them.
    pub fn cover(self, others: Self) -> bool {
        (self.old || !others.old) && (self.new || !others.new)
    }

    /// Those that are not among `others`.
    #[must_use]
    pub fn without(self, others: Self) -> Self {
        Self { old: self.old && !others.old, new: self.new && !others.new }
    }

    /// Whether this one is among them.
    pub fn has(self, side: Side) -> bool {
        match side {
            Side::Old => self.old,
            Side::New => self.new,
        }
    }
}

/// Where a move stands. It goes from phase to phase, forward or back, and never skips one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MovePhase {
    /// Holds are on the old side.
    Old,
    /// Holds are on both sides, and the old one gives the token.
    BothByOld,
    /// Holds are on both sides, and the new one gives the token. The switch is a phase of its own
    /// (MIGRATE-TOKEN-SWITCH-PHASE).
    BothByNew,
    /// Holds are on the new side. The move can be taken back.
    New,
    /// Holds are on the new side, for good: no participant needs the old one any more, so none could
    /// be asked before a step back (MIGRATE-FINAL-PHASE).
    Done,
}

impl fmt::Display for MovePhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl MovePhase {
    const ORDER: [Self; 5] = [Self::Old, Self::BothByOld, Self::BothByNew, Self::New, Self::Done];

    /// The word for it, in the stage's cell and for people.
    pub fn as_str(self) -> &'static str {
        match self {
            MovePhase::Old => "old",
            MovePhase::BothByOld => "both-by-old",
            MovePhase::BothByNew => "both-by-new",
            MovePhase::New => "new",
            MovePhase::Done => "done",
        }
    }

    /// The word for people, who see both phases on both sides as one: *old*, *both*, *new*, *done*.
    pub fn word(self) -> &'static str {
        match self {
            MovePhase::BothByOld | MovePhase::BothByNew => "both",
            phase => phase.as_str(),
        }
    }

    /// Reads the word.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ORDER.into_iter().find(|phase| phase.as_str() == text)
    }

    /// The coordinators on which a hold has a node when it completes.
    pub fn needs(self) -> Sides {
        match self {
            MovePhase::Old => Sides { old: true, new: false },
            MovePhase::BothByOld | MovePhase::BothByNew => Sides::BOTH,
            MovePhase::New | MovePhase::Done => Sides { old: false, new: true },
        }
    }

    /// The coordinators on which somebody may have a place: holds what this phase needs, or the next one
    /// back, or waits where it began to. So all that acquisitions read must stand on them, and a listing
    /// shows them. Who waits on the old side behind *Done* is not looked for: nobody needs that side then.
    pub fn spans(self) -> Sides {
        match self {
            MovePhase::Old => Sides { old: true, new: false },
            MovePhase::BothByOld | MovePhase::BothByNew | MovePhase::New => Sides::BOTH,
            MovePhase::Done => Sides { old: false, new: true },
        }
    }

    /// The coordinator whose sequence number is in the token.
    pub fn token(self) -> Side {
        match self {
            MovePhase::Old | MovePhase::BothByOld => Side::Old,
            MovePhase::BothByNew | MovePhase::New | MovePhase::Done => Side::New,
        }
    }

    /// Whether who acquires or holds must be a member on the old side (MIGRATE-MEMBERSHIP-LIVES).
    pub fn needs_membership(self) -> bool {
        self != MovePhase::Done
    }

    /// Whether the phase and its epoch are read again while both nodes are held, since the token's
    /// side may have changed.
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

/// Whether a move goes on, or is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// To the new side.
    Forward,
    /// Back to the old side.
    Back,
}

/// What the versioned cell on the old side says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stage {
    /// Where the move stands.
    pub phase: MovePhase,
    /// The epoch of the tokens that are given now.
    pub epoch: u16,
}

/// What an operator may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Write this stage over the version that was checked, and over no other
    /// (MIGRATE-COMPARE-AND-SET).
    Write(Stage),
    /// A participant has not acknowledged that version yet.
    Waits,
    /// There is no phase that way.
    Ends,
    /// The token has no room for another epoch.
    NoEpoch,
}

impl Stage {
    /// The stage before a move begins, on a coordinator whose tokens have this epoch.
    pub fn before(epoch: u16) -> Self {
        Self { phase: MovePhase::Old, epoch }
    }

    /// The next step of an operator who has read this stage at a version, and then the versions that
    /// the registered participants have acknowledged (MIGRATE-ACK-NAMES-VERSION); `None` for one that
    /// has acknowledged nothing yet.
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
