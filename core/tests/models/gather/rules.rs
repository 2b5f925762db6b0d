//! Runs the model of several locks as one: it is sound without a fault, and finds every planted
//! one.

use super::{Fault, Locks};
use crate::explore::{Broken, assert_found_as, assert_sound};

/// Each client has an order of its own.
fn in_a_circle() -> Locks {
    Locks { given: [&[0, 1], &[1, 2], &[2, 0]], losses: 1, fault: None }
}

fn all_of_them() -> Locks {
    Locks { given: [&[0, 1, 2], &[2, 1, 0], &[1]], losses: 1, fault: None }
}

fn planted(name: &str, model: Locks) {
    assert_found_as(name, model, Broken::Stuck);
}

#[test]
fn no_clients_wait_for_each_other_for_ever() {
    assert_sound("gather: a circle", in_a_circle());
    assert_sound("gather: all", all_of_them());
}

#[test]
fn gather_canonical_order() {
    planted("gather: order", Locks { fault: Some(Fault::GivenOrder), ..in_a_circle() });
}

#[test]
fn gather_try_whole() {
    planted("gather: kept", Locks { fault: Some(Fault::KeepsTried), ..in_a_circle() });
}

#[test]
fn gather_loss_begins_again() {
    planted("gather: loss", Locks { fault: Some(Fault::KeepsAfterLoss), ..all_of_them() });
}
