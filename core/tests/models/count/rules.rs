//! Runs the model of a count: it is sound without a fault, and finds every planted one.

use super::asked::{self, Asking};
use super::{Counting, Fault};
use crate::explore::{Broken, Protocol, assert_found_as, assert_sound};

fn bounds() -> Counting {
    Counting { unknown: 2, given_up: 1, deletions: 0, fault: None }
}

fn planted(name: &str, fault: Fault) {
    finds(name, Counting { fault: Some(fault), ..bounds() });
}

fn asking() -> Asking {
    Asking { unknown: 2, given_up: 1, fault: None }
}

fn planted_in_asking(name: &str, fault: asked::Fault) {
    finds(name, Asking { fault: Some(fault), ..asking() });
}

fn finds<P: Protocol>(name: &str, planted: P) {
    assert_found_as(name, planted, Broken::Miscounted);
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

#[test]
fn every_operation_is_applied_once_at_most_by_the_server() {
    assert_sound("count: asked", asking());
}

#[test]
fn count_one_number_for_the_server() {
    planted_in_asking("count: asked, number", asked::Fault::CountsAgain);
}

#[test]
fn count_ended_stays_ended() {
    planted_in_asking("count: asked, ended", asked::Fault::TakesTheEnded);
}

#[test]
fn count_refused_for_good() {
    planted_in_asking("count: asked, refused", asked::Fault::RefusesForNow);
}
