//! The epochs of tokens, in stages and in stamps.
//!
//! *The invariant.* A stamp records an epoch before its side gives tokens of it (MIGRATE-EPOCH-RECORDED). A
//! plain client reads the epoch when it connects. So after a move, completed or given up, its tokens are
//! above all tokens of the move.

use super::Stage;
use crate::token::Token;

impl Stage {
    /// Returns this stage with at least the epoch in the stamp of its token's side, of which plain clients
    /// have given tokens. The stamp must record the returned epoch before the stage is written.
    #[must_use]
    pub fn above(self, stamp: u16) -> Self {
        Self { epoch: self.epoch.max(stamp), ..self }
    }

    /// Returns how often the tokens can still change sides, with a new epoch each time. A move needs two
    /// changes: one may be the way back.
    pub fn epochs_left(old: u16, new: u16) -> u16 {
        // The next epoch of the old side, or the new side's if that is higher.
        let switched = old.saturating_add(1).max(new);
        Token::MAX_EPOCH.saturating_sub(switched.saturating_sub(1))
    }

    /// Returns whether a move can be made and taken back.
    pub fn has_epochs(old: u16, new: u16) -> bool {
        Self::epochs_left(old, new) >= 2
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MovePhase, Step, Way};
    use super::*;

    fn there_and_back(mut old: u16, mut new: u16) -> Option<(u16, u16)> {
        let mut stage = Stage::before(old);
        for way in [Way::Forward, Way::Forward, Way::Forward, Way::Back, Way::Back, Way::Back] {
            let Step::Write(next) = stage.step(&1, [Some(1)], way) else { return None };
            let stamp = if next.phase.token() == super::super::Side::Old { &mut old } else { &mut new };
            stage = next.above(*stamp);
            *stamp = stage.epoch;
        }
        assert_eq!(stage.phase, MovePhase::Old);
        Some((old, new))
    }

    #[test]
    fn a_move_rises_above_both_namespaces_and_there_is_room_exactly_as_it_is_said() {
        assert_eq!(there_and_back(0, 0), Some((2, 1)));
        assert_eq!(there_and_back(2, 1), Some((4, 3)));
        assert_eq!(there_and_back(0, 7), Some((8, 7)));
        assert_eq!(Stage::epochs_left(0, 0), Token::MAX_EPOCH);
        let last = Token::MAX_EPOCH;
        for (old, new) in
            [(last - 2, 0), (last - 1, 0), (last, 0), (0, last - 1), (0, last), (last, last), (5, 4), (4, 5)]
        {
            assert_eq!(there_and_back(old, new).is_some(), Stage::has_epochs(old, new), "{old}, {new}");
        }
    }

    #[test]
    fn a_stage_is_never_below_the_stamp_of_its_side() {
        assert_eq!(Stage::before(3).above(7).epoch, 7);
        assert_eq!(Stage::before(7).above(3).epoch, 7);
    }
}
