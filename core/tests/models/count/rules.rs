//! Runs the model of a count: it is sound without a fault, and finds every planted one.

use super::{Counting, Fault};
use crate::explore::{Broken, assert_sound, exhaustively};

fn bounds() -> Counting {
    Counting { unknown: 2, given_up: 1, deletions: 0, fault: None }
}

fn planted(name: &str, fault: Fault) {
    let found = exhaustively(name, Counting { fault: Some(fault), ..bounds() })
        .unwrap_or_else(|| panic!("{name}: the planted fault was not found"));
    println!("  {}", found.trace.join("\n  "));
    assert_eq!(found.broken, Broken::Miscounted, "{name}");
}

#[test]
fn every_operation_is_applied_once_at_most() {
    assert_sound("count", bounds());
    assert_sound("count: deleted", Counting { unknown: 1, given_up: 0, deletions: 1, fault: None });
}

#[test]
fn count_ask_the_record() {
    planted("count: doubt", Fault::ForgetsItsDoubt);
}

#[test]
fn count_one_number() {
    planted("count: number", Fault::CountsAgain);
}

#[test]
fn cell_cas() {
    planted("count: compares nothing", Fault::ComparesNothing);
}

#[test]
fn count_keeps_records() {
    planted("count: records", Fault::KeepsOwnRecord);
}
