use super::{Fault, Places};
use crate::explore::{Broken, assert_found_as, assert_sound, long};

fn one() -> Places {
    Places {
        participants: vec![(0, 1)],
        operators: vec![(0, 1)],
        writes: 7,
        wipes: 0,
        backs: 0,
        uses: 2,
        rounds: 1,
        fault: None,
    }
}

fn two() -> Places {
    Places { participants: vec![(0, 1); 2], uses: 0, ..one() }
}

/// One of two participants names another new side.
fn elsewhere() -> Places {
    Places { participants: vec![(0, 1), (0, 2)], uses: 0, ..one() }
}

fn exchanged() -> Places {
    Places { operators: vec![(1, 0)], ..one() }
}

fn planted(name: &str, bounds: Places, fault: Fault, expected: Broken) {
    assert_found_as(name, Places { fault: Some(fault), ..bounds }, expected);
}

#[test]
fn a_move_between_sides_that_are_not_all_the_same_harms_no_client() {
    assert_sound("sides: elsewhere", elsewhere());
    assert_sound("sides: exchanged", exchanged());
    assert_sound("sides: another new side", Places { operators: vec![(0, 2)], ..one() });
    if long() {
        assert_sound("sides: two operators", Places { operators: vec![(0, 1), (0, 2)], ..elsewhere() });
    }
}

#[test]
fn a_side_that_loses_all_data_harms_no_client() {
    assert_sound("sides: values, a side is wiped", Places { wipes: 1, ..one() });
    assert_sound("sides: two hold, a side is wiped", Places { wipes: 1, writes: 6, ..two() });
}

#[test]
fn a_side_that_loses_its_last_write_harms_no_client() {
    assert_sound("sides: two hold, a side goes back", Places { backs: 1, writes: 6, ..two() });
    assert_sound("sides: values, a side goes back", Places { backs: 1, ..one() });
    if long() {
        let more = Places { backs: 1, writes: 10, uses: 3, ..one() };
        assert_sound("sides: values, a side goes back, more writes", more.clone());
        let operators = vec![(0, 1); 2];
        assert_sound("sides: two operators, a side goes back", Places { operators, writes: 6, ..more });
    }
}

#[test]
fn migrate_same_sides() {
    planted("sides: ignores the record", elsewhere(), Fault::IgnoresTheRecord, Broken::TwoHolders);
}

#[test]
fn migrate_record_first() {
    let bounds = Places { wipes: 1, ..two() };
    planted("sides: records nothing", bounds, Fault::RecordsNothing, Broken::TokenBack);
    let bounds = Places { backs: 1, ..one() };
    planted("sides: records phases only", bounds, Fault::RecordsPhasesOnly, Broken::ReadBack);
}

#[test]
fn migrate_record_completed() {
    let bounds = Places { backs: 1, ..one() };
    planted("sides: completes nothing", bounds, Fault::CompletesNothing, Broken::ReadBack);
}

#[test]
fn migrate_repair_keeps() {
    let bounds = Places { wipes: 1, writes: 9, ..one() };
    planted("sides: repairs over a loss", bounds.clone(), Fault::RepairsOverLoss, Broken::ReadBack);
    planted("sides: keeps by the first look", bounds, Fault::KeepsByTheFirstLook, Broken::ReadBack);
}
