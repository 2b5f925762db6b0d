use super::super::evidence::MoveId;
use super::*;

const WHOLE: TakesPart = TakesPart { on_old: true, on_new: true, member: true };

fn record(from: MovePhase, to: MovePhase) -> MoveRecord {
    MoveRecord { id: MoveId::new(1), from, to: Some(to), values: to.token().into(), over: 3, epoch: 0 }
}

fn found(phase: Option<MovePhase>) -> Found {
    let read = phase.map(|phase| StageRead {
        id: MoveId::new(1),
        version: 4,
        stage: Stage { phase, epoch: 0 },
        values: phase.token().into(),
    });
    Found {
        stage: read,
        copies: false,
        record: phase.map(|phase| record(phase, phase)),
        markers: [if phase.is_some() { MarkerStanding::Own } else { MarkerStanding::Missing }; 2],
        epochs: [0; 2],
        layouts: [true; 2],
        one_place: false,
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

#[test]
fn only_a_move_that_has_begun_can_have_lost_its_marker() {
    let never = Found { left: true, ..found(None) };
    assert_eq!(never.obstacles(Wanted::Finish), []);
    let mut done = Found { left: true, ..found(Some(MovePhase::Done)) };
    done.markers = [MarkerStanding::Missing; 2];
    let lost = [Obstacle::MarkerLost(Side::Old), Obstacle::StillConnected];
    assert_eq!(done.obstacles(Wanted::Finish), lost);
}

#[test]
fn repair_restores_the_latest_phase_that_a_client_may_know_with_another_identity() {
    use MovePhase::{BothByNew, BothByOld, New};
    let id = MoveId::new(9);
    let restored =
        |phase: MovePhase, id| Repair::Stage(MoveRecord { id, over: 0, ..record(phase, phase) }, false);
    assert_eq!(found(Some(New)).repair(id), Repair::Nothing);
    assert_eq!(found(None).repair(id), Repair::Nothing);
    let lost = Found { record: Some(record(BothByOld, BothByNew)), ..found(None) };
    assert_eq!(lost.repair(id), restored(BothByNew, id));
    // Clients may have used values on the old side since the switch.
    let switched = Found { record: Some(record(BothByNew, BothByOld)), ..found(None) };
    assert_eq!(switched.repair(id), restored(BothByOld, id));
    let side = |any| Stored { any, ..Stored::default() };
    for (on_old, copies) in [(true, true), (false, false)] {
        let switched = Found { stored: Some([side(on_old), side(true)]), ..switched.clone() };
        assert!(matches!(switched.repair(id), Repair::Stage(_, says) if says == copies));
    }
    // Another repair has written the record, but not the stage.
    let other = MoveId::new(2);
    let begun = MoveRecord { id: other, over: 0, ..record(New, New) };
    for phase in [None, Some(BothByOld)] {
        let half = Found { record: Some(begun), ..found(phase) };
        assert_eq!(half.repair(id), restored(New, other));
    }
    let ahead = MemberSays { acknowledged: Some(5), ..MemberSays::default() };
    let announced = Some(MoveRecord { over: 4, ..record(BothByOld, BothByNew) });
    let back = Found { members: vec![ahead], record: announced, ..found(Some(BothByOld)) };
    assert_eq!(back.repair(id), restored(BothByNew, id));
}

#[test]
fn repair_writes_the_record_unless_the_old_side_may_have_the_only_copy() {
    let side = |any| Stored { any, ..Stored::default() };
    for (phase, has_values, keeps) in [
        (MovePhase::BothByOld, true, false),
        (MovePhase::BothByNew, true, true),
        (MovePhase::New, true, true),
        (MovePhase::New, false, false),
    ] {
        let stored = Some([side(has_values), side(false)]);
        let lost = Found { record: None, stored, ..found(Some(phase)) };
        let expected = match keeps {
            true => Repair::OnlyCopy(Contradiction::RecordLost),
            false => Repair::Record(MoveRecord { over: 4, ..record(phase, phase) }),
        };
        assert_eq!(lost.repair(MoveId::new(9)), expected, "{phase} {has_values}");
    }
}
