//! The list of obstacles in several states of a move.

use super::super::evidence::MoveId;
use super::*;

const WHOLE: TakesPart = TakesPart { on_old: true, on_new: true, member: true };

fn record(from: MovePhase, to: MovePhase) -> MoveRecord {
    MoveRecord { id: MoveId::new(1), from, to: Some(to), over: 3, epoch: 0 }
}

/// A move that may go on from this stage.
fn found(phase: Option<MovePhase>) -> Found {
    let stage = |phase| Stage { phase, epoch: 0 };
    let read = phase.map(|phase| StageRead { id: MoveId::new(1), version: 4, stage: stage(phase) });
    Found {
        stage: read,
        values: phase.map_or(Side::Old, MovePhase::token).into(),
        copies: false,
        record: phase.map(|phase| record(phase, phase)),
        markers: [if phase.is_some() { MarkerStanding::Own } else { MarkerStanding::Missing }; 2],
        epochs: [0; 2],
        layouts: [true; 2],
        outsiders: false,
        left: false,
        participants: vec![WHOLE],
        members: vec![MemberSays { acknowledged: Some(4), ..MemberSays::default() }],
        stored: None,
    }
}

const FORWARD: Wanted = Wanted::Step(Way::Forward);
const BACK: Wanted = Wanted::Step(Way::Back);

#[test]
fn nothing_is_in_the_way_of_a_healthy_move() {
    use MovePhase::{BothByNew, BothByOld, New, Old};
    for phase in [None, Some(Old), Some(BothByOld), Some(BothByNew), Some(New)] {
        for wanted in [FORWARD, BACK] {
            assert_eq!(found(phase).obstacles(wanted), [], "{phase:?} {wanted:?}");
        }
    }
}

#[test]
fn a_move_begins_with_participants_that_are_whole() {
    let mut begins = found(None);
    for apart in [
        TakesPart { on_new: false, ..WHOLE },
        TakesPart { on_old: false, ..WHOLE },
        TakesPart { member: false, ..WHOLE },
    ] {
        begins.participants = vec![WHOLE, apart];
        assert_eq!(begins.obstacles(FORWARD), [Obstacle::Apart]);
    }
    (begins.participants, begins.members) = (vec![], vec![]);
    assert_eq!(begins.obstacles(FORWARD), [Obstacle::NobodyTakesPart]);
    let mut goes_on = Found { participants: vec![], members: vec![], ..found(Some(MovePhase::New)) };
    assert_eq!(goes_on.obstacles(FORWARD), [Obstacle::NobodyTakesPart]);
    assert_eq!(goes_on.obstacles(BACK), []);
    goes_on.participants = vec![TakesPart { on_new: false, ..WHOLE }];
    assert_eq!(goes_on.obstacles(FORWARD), [], "the step waits");
}

#[test]
fn a_side_that_lost_the_move_is_in_the_way_of_each_step() {
    use Contradiction::{RecordLost, StageLost, StageWentBack};
    for (phase, record, contradiction) in [
        (None, Some(record(MovePhase::BothByNew, MovePhase::New)), StageLost),
        (None, Some(record(MovePhase::New, MovePhase::Done)), StageLost),
        (Some(MovePhase::New), None, RecordLost),
        (Some(MovePhase::Old), Some(record(MovePhase::BothByNew, MovePhase::New)), StageWentBack),
    ] {
        let mut lost = Found { record, ..found(phase) };
        if contradiction == StageWentBack {
            lost.record = record.map(|record| MoveRecord { id: MoveId::new(2), ..record });
        }
        for wanted in [FORWARD, BACK] {
            let first = lost.obstacles(wanted).into_iter().next();
            assert_eq!(first, Some(Obstacle::Contradicts(contradiction)), "{wanted:?}");
        }
    }
    let ended = Found { record: Some(record(MovePhase::New, MovePhase::Done)), ..found(None) };
    let ended = Found { markers: [MarkerStanding::Retired, MarkerStanding::Missing], ..ended };
    assert_eq!(ended.contradiction(), None);
}

#[test]
fn a_member_that_knows_a_later_stage_is_in_the_way() {
    for says in [
        MemberSays { acknowledged: Some(5), ..MemberSays::default() },
        MemberSays { knows: Some(5), ..MemberSays::default() },
        MemberSays { stopped: Some(Contradiction::RecordLost), ..MemberSays::default() },
    ] {
        let ahead = Found { members: vec![says], ..found(Some(MovePhase::BothByNew)) };
        assert_eq!(ahead.obstacles(FORWARD), [Obstacle::MemberAhead]);
        assert_eq!(ahead.obstacles(BACK), [Obstacle::MemberAhead]);
    }
}

#[test]
fn values_of_the_new_side_are_not_replaced_unless_they_are_copies() {
    let side = |any| Stored { any, idle: false, takes: true, takes_idle: true };
    for phase in [None, Some(MovePhase::Old), Some(MovePhase::BothByOld)] {
        let mut both = Found { stored: Some([side(true), side(true)]), ..found(phase) };
        assert_eq!(both.obstacles(FORWARD), [Obstacle::ValuesThere], "{phase:?}");
        both.copies = true;
        assert_eq!(both.obstacles(FORWARD), [], "{phase:?}");
        assert_eq!(both.obstacles(BACK), [], "{phase:?}");
    }
}
