use latchwork_core::backend::decide::moving::Side;

use super::{Fault, Gate};
use crate::explore::{Broken, assert_found_as, assert_sound, long};

fn one() -> Gate {
    Gate {
        clients: vec![Side::Old, Side::New],
        rounds: 2,
        losses: 1,
        operators: 1,
        writes: 9,
        forgets: 0,
        epochs: [0, 0],
        fault: None,
    }
}

/// Two operators, one of which gives the move up.
fn two() -> Gate {
    Gate { clients: vec![Side::Old], rounds: 2, losses: 0, operators: 2, writes: 9, ..one() }
}

/// One operator, which goes forward until the new side gives tokens, and then back until it gives the move up,
/// or to the end.
fn there_and_back() -> Gate {
    Gate { clients: vec![Side::Old], losses: 0, writes: 13, ..one() }
}

/// The same after an earlier move, which raised epochs.
fn moved_before() -> Gate {
    Gate { clients: vec![Side::Old, Side::New], epochs: [1, 3], ..there_and_back() }
}

/// Servers forget markers, and the operator repairs them.
fn forgotten() -> Gate {
    Gate { clients: vec![Side::Old], losses: 0, forgets: 1, writes: 13, ..one() }
}

fn planted(name: &str, bounds: Gate, fault: Fault) {
    assert_found_as(name, Gate { fault: Some(fault), ..bounds }, Broken::Outside);
}

#[test]
fn no_plain_client_works_on_a_side_that_is_not_the_only_one() {
    assert_sound("gate: one operator", one());
    assert_sound("gate: two operators", two());
}

#[test]
fn plain_client_tokens_rise_after_a_move_and_after_an_abort() {
    assert_sound("gate: there and back", there_and_back());
    assert_sound("gate: there and back, moved before", moved_before());
    if long() {
        let two = Gate { operators: 2, rounds: 1, ..moved_before() };
        assert_sound("gate: two operators, there and back", two);
    }
}

#[test]
fn client_register_first() {
    planted("gate: reads first", one(), Fault::ReadsFirst);
}

#[test]
fn client_acts_registered() {
    planted("gate: works unregistered", one(), Fault::WorksUnregistered);
}

#[test]
fn migrate_gate() {
    planted("gate: lists first", one(), Fault::ListsFirst);
    planted("gate: leaves the new side open", one(), Fault::LeavesTheNewSideOpen);
}

#[test]
fn migrate_gate_anew() {
    planted("gate: keeps the marker", two(), Fault::KeepsTheMarker);
    planted("gate: marks before the cell", two(), Fault::MarksBeforeTheCell);
    planted("gate: lifts any marker", two(), Fault::LiftsAnyMarker);
}

#[test]
fn move_with_a_lost_marker_never_advances_with_plain_clients() {
    assert_sound("gate: forgotten on the old side", forgotten());
    assert_sound("gate: forgotten on the new side", Gate { clients: vec![Side::New], ..forgotten() });
    if long() {
        let two = Gate { operators: 2, rounds: 1, writes: 9, ..forgotten() };
        assert_sound("gate: forgotten, two operators", two);
    }
}

#[test]
fn migrate_gate_each_step() {
    planted("gate: steps unlisted", forgotten(), Fault::StepsUnlisted);
    planted("gate: steps unmarked", forgotten(), Fault::StepsUnmarked);
    // If the move is given up, a client that came in continues below the epoch that was recorded after it.
    let early = Gate { fault: Some(Fault::RecordsBeforeTheList), ..forgotten() };
    assert_found_as("gate: records before the list", early, Broken::TokenBack);
    let below = Gate { fault: Some(Fault::GivesUpBelow), ..forgotten() };
    assert_found_as("gate: gives up below", below, Broken::TokenBack);
}

#[test]
fn migrate_gate_opens_last() {
    planted("gate: opens early", one(), Fault::OpensEarly);
}

#[test]
fn migrate_epoch_recorded() {
    // One operator dies between the two writes.
    let late = Gate { fault: Some(Fault::RecordsLate), operators: 2, ..there_and_back() };
    assert_found_as("gate: records late", late, Broken::TokenBack);
    let higher = Gate { fault: Some(Fault::BeginsHigher), ..moved_before() };
    assert_found_as("gate: begins with the higher epoch", higher, Broken::TokenBack);
    // Two clients of the new side. The move that raises the epoch is given up.
    let beside = Gate { clients: vec![Side::New; 2], rounds: 1, operators: 2, ..there_and_back() };
    let unchecked = Gate { fault: Some(Fault::RecordsUnchecked), ..beside };
    assert_found_as("gate: records unchecked", unchecked, Broken::TokenBack);
}
