//! Runs the model of the gate: it is sound without a fault, and finds every planted one.

use latchwork_core::decide::moving::Side;

use super::{Fault, Gate};
use crate::explore::{Broken, assert_found_as, assert_sound};

/// One operator, who begins and goes on to the end.
fn one() -> Gate {
    Gate { clients: vec![Side::Old, Side::New], rounds: 2, losses: 1, operators: 1, writes: 9, fault: None }
}

/// Two, one of whom gives it up.
fn two() -> Gate {
    Gate { clients: vec![Side::Old], rounds: 2, losses: 0, operators: 2, writes: 9, ..one() }
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
fn migrate_gate_opens_last() {
    planted("gate: opens early", one(), Fault::OpensEarly);
}
