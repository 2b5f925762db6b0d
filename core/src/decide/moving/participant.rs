//! A participant's decisions: its acquisitions, holds and acknowledgements.

use super::{MovePhase, Side, Sides};

/// The next step of an acquisition, by the phase that is known now (MIGRATE-DECIDE-AT-END).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AcquireNext {
    /// Join this side, or wait there. The old side comes first.
    Join(Side),
    /// Leave the new side before joining the old side (MIGRATE-CANONICAL-ORDER).
    GiveBackNew,
    /// Read the phase again while both nodes are held.
    Read,
    /// Complete, with a token of this side.
    Complete(Side),
}

/// The admitted nodes of an acquisition or hold, as its client knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holding {
    /// The sides on which it is admitted.
    pub on: Sides,
}

impl Holding {
    /// Returns the next step of an acquisition. `queued_on_new`: it has a place on the new side. `read`: the
    /// stage was read after both admissions.
    pub fn next(self, phase: MovePhase, queued_on_new: bool, read: bool) -> AcquireNext {
        let needs = phase.needs();
        if needs.old && !self.on.old {
            return if queued_on_new { AcquireNext::GiveBackNew } else { AcquireNext::Join(Side::Old) };
        }
        if needs.new && !self.on.new {
            return AcquireNext::Join(Side::New);
        }
        match phase.is_read_while_held() && !read {
            true => AcquireNext::Read,
            false => AcquireNext::Complete(phase.token()),
        }
    }

    /// Returns whether a hold is valid. `live`: the sides whose leases are valid by the client's clock. A
    /// hold ends with any of its leases (MIGRATE-EITHER-LOST-IS-LOST), and with the membership
    /// (MIGRATE-MEMBERSHIP-LIVES).
    pub fn is_valid(self, phase: MovePhase, live: Sides) -> bool {
        live.cover(self.on) && (live.old || !phase.needs_membership())
    }

    /// Returns the side that a hold joins early for the next phase: only the new side, which is free for the
    /// holder of the old side. A hold on the new side never joins the old side: it would wait there for a
    /// holder that waits for it.
    pub fn joins(self, phase: MovePhase) -> Option<Side> {
        (phase.needs().new && !self.on.new && self.on.old).then_some(Side::New)
    }

    /// Returns the sides that the phase does not need.
    pub fn gives_back(self, phase: MovePhase) -> Sides {
        match self.on.cover(phase.needs()) {
            true => self.on.without(phase.needs()),
            false => Sides::default(),
        }
    }
}

/// Returns whether each hold covers the phase (MIGRATE-ACK-COVERS-HOLDS). Later acquisitions complete in that
/// phase or a later one.
pub fn may_acknowledge(phase: MovePhase, holds: impl IntoIterator<Item = Holding>) -> bool {
    holds.into_iter().all(|hold| hold.on.cover(phase.needs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Sides = Sides { old: false, new: false };
    const OLD: Sides = Sides { old: true, new: false };
    const NEW: Sides = Sides { old: false, new: true };

    #[test]
    fn an_acquisition_takes_the_old_side_first_and_completes_by_the_phase_that_it_knows_then() {
        use MovePhase::{BothByNew, BothByOld, Done, New, Old};
        for (on, queued_on_new, phase, read, expected) in [
            (NOTHING, false, Old, false, AcquireNext::Join(Side::Old)),
            (OLD, false, Old, false, AcquireNext::Complete(Side::Old)),
            (NOTHING, false, BothByOld, false, AcquireNext::Join(Side::Old)),
            (OLD, false, BothByOld, false, AcquireNext::Join(Side::New)),
            (Sides::BOTH, true, BothByOld, false, AcquireNext::Read),
            (Sides::BOTH, true, BothByOld, true, AcquireNext::Complete(Side::Old)),
            (Sides::BOTH, true, BothByNew, true, AcquireNext::Complete(Side::New)),
            (OLD, false, New, false, AcquireNext::Join(Side::New)),
            (NEW, true, New, false, AcquireNext::Complete(Side::New)),
            (NEW, true, Done, false, AcquireNext::Complete(Side::New)),
            (NEW, true, BothByNew, false, AcquireNext::GiveBackNew),
            (NOTHING, true, Old, false, AcquireNext::GiveBackNew),
            (Sides::BOTH, true, Old, true, AcquireNext::Complete(Side::Old)),
        ] {
            let next = Holding { on }.next(phase, queued_on_new, read);
            assert_eq!(next, expected, "{on:?} in {phase:?}, read: {read}");
        }
    }

    #[test]
    fn a_hold_ends_with_either_lease_and_with_the_membership() {
        use MovePhase::{BothByOld, Done, New, Old};
        for (on, phase, live, expected) in [
            (OLD, Old, OLD, true),
            (OLD, Old, NEW, false),
            (Sides::BOTH, BothByOld, Sides::BOTH, true),
            (Sides::BOTH, BothByOld, NEW, false),
            (Sides::BOTH, BothByOld, OLD, false),
            (NEW, New, Sides::BOTH, true),
            (NEW, New, NEW, false),
            (NEW, Done, NEW, true),
        ] {
            assert_eq!(Holding { on }.is_valid(phase, live), expected, "{on:?} in {phase:?} over {live:?}");
        }
    }

    #[test]
    fn a_hold_on_the_old_side_takes_the_new_one_and_one_on_the_new_side_drains() {
        assert_eq!(Holding { on: OLD }.joins(MovePhase::BothByOld), Some(Side::New));
        assert_eq!(Holding { on: OLD }.joins(MovePhase::Old), None);
        assert_eq!(Holding { on: NEW }.joins(MovePhase::BothByNew), None);
        assert!(!may_acknowledge(MovePhase::BothByNew, [Holding { on: NEW }]));
        assert!(may_acknowledge(MovePhase::BothByNew, []));
        assert!(may_acknowledge(MovePhase::New, [Holding { on: Sides::BOTH }, Holding { on: NEW }]));
    }

    #[test]
    fn a_hold_gives_back_what_its_phase_does_not_need_and_never_what_covers_it() {
        assert_eq!(Holding { on: Sides::BOTH }.gives_back(MovePhase::New), OLD);
        assert_eq!(Holding { on: Sides::BOTH }.gives_back(MovePhase::Old), NEW);
        assert_eq!(Holding { on: Sides::BOTH }.gives_back(MovePhase::BothByNew), NOTHING);
        assert_eq!(Holding { on: OLD }.gives_back(MovePhase::New), NOTHING);
    }
}
