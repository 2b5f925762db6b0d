//! Runs the model of a hold: it is sound without a fault, and finds every planted one.

use super::{Fault, Hold};
use crate::explore::{Broken, assert_found_as, assert_sound, long};

fn bounds() -> Hold {
    let requests = if long() { 6 } else { 5 };
    Hold { requests, failures: 3, operator: true, lease_ends: true, fault: None }
}

fn planted(name: &str, fault: Fault, found_as: Broken) {
    assert_found_as(name, Hold { fault: Some(fault), ..bounds() }, found_as);
}

#[test]
fn every_state_of_a_hold_is_sound() {
    assert_sound("hold", bounds());
}

#[test]
fn a_dropped_attempt_without_an_answer_is_abandoned() {
    planted("hold: unknown", Fault::UnknownForgotten, Broken::Ghost);
}

#[test]
fn a_dropped_attempt_with_a_node_leaves() {
    planted("hold: node", Fault::NodeForgotten, Broken::Ghost);
}

#[test]
fn a_dropped_release_goes_on_in_the_background() {
    planted("hold: release", Fault::ReleaseForgotten, Broken::Ghost);
}

#[test]
fn a_clean_up_that_failed_is_tried_again() {
    planted("hold: again", Fault::TriedOnce, Broken::Ghost);
}

#[test]
fn a_try_without_an_answer_may_have_removed_the_node() {
    planted("hold: uncounted", Fault::TryUncounted, Broken::Believes);
}

#[test]
fn a_join_without_an_answer_meets_a_tombstone() {
    planted("hold: tombstone", Fault::NoTombstone, Broken::Ghost);
}

#[test]
fn the_end_of_the_lease_is_a_loss() {
    planted("hold: loss", Fault::LossUnseen, Broken::Believes);
}
