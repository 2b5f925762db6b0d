use latchwork_core::backend::decide::moving::MovePhase;

use super::{Ends, Fault};
use crate::explore::{Broken, assert_found_as, assert_sound, long, walk};

/// Two members, one of which may be cut off, and an operator that takes the move back and gives it up.
fn taken_back() -> Ends {
    Ends {
        participants: 2,
        members: 2,
        knew: None,
        from: Some(MovePhase::New),
        rounds: 1,
        cut_off: 1,
        losses: 1,
        operators: 1,
        writes: 5,
        forgets: false,
        fault: None,
    }
}

fn one_is_away() -> Ends {
    Ends { members: 1, knew: Some(MovePhase::New), losses: 0, ..taken_back() }
}

fn beside_another() -> Ends {
    Ends { from: Some(MovePhase::Old), losses: 0, operators: 2, writes: 3, ..taken_back() }
}

/// One member, a late participant, and an operator that finishes the move.
fn finished() -> Ends {
    Ends { members: 1, from: Some(MovePhase::Done), losses: 0, writes: 3, ..taken_back() }
}

fn finished_by_two() -> Ends {
    Ends { operators: 2, writes: 5, ..finished() }
}

fn planted(name: &str, bounds: Ends, fault: Fault, expected: Broken) {
    assert_found_as(name, Ends { fault: Some(fault), ..bounds }, expected);
}

#[test]
fn client_away_during_an_abort_holds_with_no_other_client() {
    assert_sound("ends: taken back", Ends { losses: 0, ..taken_back() });
    assert_sound("ends: the server loses the cell", Ends { forgets: true, writes: 2, ..taken_back() });
    if long() {
        assert_sound("ends: taken back, a membership is lost", taken_back());
        assert_sound("ends: both may be cut off", Ends { cut_off: 2, losses: 2, ..taken_back() });
        assert_sound("ends: one is away, with two operators", Ends { operators: 2, ..one_is_away() });
    }
}

#[test]
fn operator_that_begins_a_move_leaves_no_member_stuck() {
    assert_sound("ends: begun", Ends { from: None, operators: 1, writes: 6, ..beside_another() });
}

#[test]
fn late_client_of_a_finished_move_never_holds_with_another() {
    assert_sound("ends: finished", finished());
    assert_sound("ends: finished while one is away", Ends { writes: 4, ..one_is_away() });
}

#[test]
fn random_walks_of_three_participants_and_two_operators_find_nothing() {
    let model = Ends {
        participants: 3,
        members: 0,
        from: None,
        rounds: 8,
        cut_off: 3,
        losses: 6,
        operators: 2,
        writes: 40,
        ..taken_back()
    };
    walk("ends", &model, 400, if long() { 2_000_000 } else { 400_000 });
}

#[test]
fn migrate_back_to_old() {
    let bounds = one_is_away();
    planted(
        "ends: goes on by the stage that it knew",
        bounds.clone(),
        Fault::GoesOnByWhatItKnew,
        Broken::TwoHolders,
    );
    let bounds = Ends { forgets: true, ..bounds };
    planted("ends: goes back unasked", bounds, Fault::GoesBackUnasked, Broken::TwoHolders);
}

mod larger {
    use super::*;

    #[test]
    fn a_second_operator_in_the_middle_forgets_no_member() {
        assert_sound("ends: with another operator", beside_another());
    }

    #[test]
    fn a_late_member_of_a_move_that_two_operators_finished_holds_alone() {
        assert_sound("ends: finished by two", finished_by_two());
    }
}
