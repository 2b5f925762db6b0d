use latchwork_core::backend::decide::moving::values::{ValuesAt, WholeStage};
use latchwork_core::backend::decide::moving::{MovePhase, Stage};

use super::{Copying, Fault, Kind};
use crate::explore::{Broken, Protocol, Random, assert_found_as, assert_sound, long, walk};

/// Two participants add and read, and an operator takes the count to the other side.
fn there() -> Copying {
    Copying {
        begins: WholeStage { stage: Stage { phase: MovePhase::BothByOld, epoch: 0 }, values: ValuesAt::Old },
        changes: vec![vec![Kind::Add], vec![Kind::Add]],
        tries: 1,
        reads: 1,
        losses: 0,
        operators: 1,
        writes: 4,
        copies: 1,
        clears: false,
        expiries: 0,
        fault: None,
    }
}

fn alone() -> Copying {
    Copying { changes: vec![vec![Kind::Add, Kind::Add]], ..there() }
}

fn one_add() -> Copying {
    Copying { changes: vec![vec![Kind::Add], vec![]], ..there() }
}

/// Two operators find the count frozen, and the participant adds and reads afterwards. Only the long tier
/// explores all of it.
fn two_operators() -> Copying {
    let stage = Stage { phase: MovePhase::BothByOld, epoch: 0 };
    let begins = WholeStage { stage, values: ValuesAt::LeavingOld };
    let changes = vec![vec![Kind::Add]];
    Copying { begins, changes, operators: 2, copies: 2, expiries: 1, ..there() }
}

/// One operator takes the count to the new side, and another deletes the cells there by an earlier stage.
fn clears() -> Copying {
    let changes = vec![vec![Kind::Add]];
    Copying { changes, operators: 2, writes: 5, copies: 2, clears: true, ..there() }
}

fn back(bounds: Copying) -> Copying {
    let stage = Stage { phase: MovePhase::BothByNew, epoch: 1 };
    Copying { begins: WholeStage { stage, values: ValuesAt::New }, ..bounds }
}

fn planted(name: &str, bounds: Copying, fault: Fault, broken: Broken) {
    assert_found_as(name, Copying { fault: Some(fault), ..bounds }, broken);
}

#[test]
fn nothing_is_broken_there_and_back() {
    assert_sound("values: there", there());
    assert_sound("values: back", back(there()));
    assert_sound("values: there, with an add that is sent again", Copying { tries: 2, ..one_add() });
    assert_sound("values: there, and a membership is lost", Copying { losses: 1, ..alone() });
    if long() {
        assert_sound("values: two operators, one of which loses its node", two_operators());
        assert_sound("values: two operators, one of which deletes", clears());
        assert_sound(
            "values: the same, and an operator loses its node",
            Copying { copies: 3, expiries: 1, ..clears() },
        );
        assert_sound("values: two add, and send again", Copying { tries: 2, ..there() });
        assert_sound("values: there and back", Copying { writes: 8, copies: 2, ..alone() });
        assert_sound(
            "values: two operators",
            Copying { operators: 2, writes: 5, copies: 2, expiries: 1, ..alone() },
        );
    }
}

#[test]
fn long_walks_break_nothing() {
    let changes = vec![vec![Kind::Add, Kind::Delete, Kind::Add], vec![Kind::Add, Kind::Add, Kind::Add]];
    let model = Copying {
        changes,
        tries: 3,
        reads: 6,
        losses: 2,
        operators: 2,
        writes: 24,
        copies: 12,
        clears: true,
        expiries: 3,
        ..there()
    };
    walk("values", &model, 400, 300_000);
    walk("values: back", &back(model), 400, 300_000);
}

/// Otherwise the tests might be sound because the count never moves.
#[test]
fn the_count_goes_there_and_back_in_some_walk() {
    let model = Copying { reads: 3, writes: 16, copies: 4, operators: 2, expiries: 1, ..there() };
    let mut random = Random(30);
    let (mut there, mut again) = (0, 0);
    for _ in 0..4_000 {
        let mut state = model.init_states().remove(0);
        let mut was_there = false;
        for _ in 0..400 {
            let Some(step) = random.step(&model, &state) else { break };
            model.step(&mut state, step);
            if state.whole.values == ValuesAt::New && state.new.count.records.is_some() && !was_there {
                was_there = true;
                there += 1;
            }
            if was_there && state.whole.values == ValuesAt::Old {
                again += 1;
                break;
            }
        }
    }
    println!("there in {there} walks, and back in {again}");
    assert!(there > 10 && again > 0, "{there} and {again}");
}

#[test]
fn migrate_values_freeze() {
    planted("values: freezes nothing", there(), Fault::FreezesNothing, Broken::ReadBack);
    let late = Copying { changes: vec![vec![Kind::Add]], reads: 2, ..there() };
    planted("values: reads while frozen", late, Fault::ReadsWhileFrozen, Broken::ReadBack);
}

#[test]
fn migrate_values_ack_waits() {
    planted("values: acknowledges at once", one_add(), Fault::AcknowledgesAtOnce, Broken::ReadBack);
    planted("values: asks nobody", alone(), Fault::AsksNobody, Broken::ReadBack);
}

#[test]
fn migrate_values_live_member() {
    let bounds = Copying { losses: 1, ..one_add() };
    planted("values: counts any answer", bounds, Fault::CountsAnyAnswer, Broken::ReadBack);
}

#[test]
fn migrate_values_held_copy() {
    let bounds = Copying { writes: 6, copies: 2, ..alone() };
    planted("values: copies without a hold", bounds, Fault::CopiesWithoutHold, Broken::ReadBack);
}

#[test]
fn migrate_values_stage_anew() {
    let bounds = two_operators();
    planted("values: keeps the version", bounds.clone(), Fault::KeepsTheVersion, Broken::ReadBack);
    planted("values: reads after its admission", bounds, Fault::ReadsBehindAdmission, Broken::ReadBack);
}

#[test]
fn migrate_values_fresh_hold() {
    let bounds = Copying { copies: 2, ..alone() };
    planted("values: steps by the same hold", bounds, Fault::StepsByTheSameHold, Broken::ReadBack);
}

#[test]
fn migrate_values_verify() {
    planted("values: compares no cells", alone(), Fault::ComparesNoCells, Broken::ReadBack);
}

#[test]
fn migrate_values_mirror() {
    let changes = vec![vec![Kind::Add, Kind::Delete]];
    let bounds = Copying { changes, writes: 8, copies: 2, ..alone() };
    planted("values: leaves extras", bounds, Fault::LeavesExtras, Broken::ReadBack);
    let again = Copying { tries: 2, ..one_add() };
    planted("values: copies the number", again, Fault::CopiesTheNumber, Broken::Miscounted);
}

#[test]
fn migrate_values_compare_and_set() {
    let bounds = Copying { operators: 2, writes: 4, changes: vec![vec![Kind::Add]], ..alone() };
    planted("values: compares nothing", bounds, Fault::ComparesNothing, Broken::ReadBack);
}

mod larger {
    use super::*;

    #[test]
    fn migrate_values_clear() {
        planted("values: deletes by an earlier stage", clears(), Fault::ClearsByWhatItRead, Broken::ReadBack);
    }

    #[test]
    fn nothing_is_broken_by_a_deletion() {
        let deletes = vec![vec![Kind::Add], vec![Kind::Delete]];
        assert_sound("values: there, with a deletion", Copying { changes: deletes, ..there() });
    }
}
