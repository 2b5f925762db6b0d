//! Runs the model of layouts: it is sound without a fault, and finds every planted one.

use super::{Fault, Layouts};
use crate::explore::{Broken, assert_found_as, assert_sound};

fn one_operator() -> Layouts {
    Layouts { clients: vec![1, 1, 2], rounds: 2, losses: 1, operators: vec![2], calls: 2, fault: None }
}

fn two_operators() -> Layouts {
    Layouts { clients: vec![1, 2], rounds: 2, losses: 1, operators: vec![2, 2], calls: 2, fault: None }
}

fn three_builds() -> Layouts {
    Layouts { clients: vec![1, 2], rounds: 2, losses: 0, operators: vec![2, 3], calls: 2, fault: None }
}

fn planted(name: &str, model: Layouts, fault: Fault, expected: Broken) {
    assert_found_as(name, Layouts { fault: Some(fault), ..model }, expected);
}

#[test]
fn every_client_works_with_the_stamped_layout_and_the_stamp_never_goes_back() {
    assert_sound("layout: one operator", one_operator());
    assert_sound("layout: two operators", two_operators());
    assert_sound("layout: three builds", three_builds());
}

#[test]
fn client_register_first() {
    planted("layout: reads first", one_operator(), Fault::ReadsFirst, Broken::TooOld);
}

#[test]
fn client_read_again() {
    planted("layout: trusts what it read", one_operator(), Fault::TrustsWhatItRead, Broken::TooOld);
}

#[test]
fn layout_announce_first() {
    planted("layout: lists first", one_operator(), Fault::ListsFirst, Broken::TooOld);
}

#[test]
fn layout_two_steps() {
    planted("layout: raises at once", one_operator(), Fault::RaisesAtOnce, Broken::TooOld);
}

#[test]
fn layout_under_version() {
    planted("layout: compares nothing", two_operators(), Fault::ComparesNothing, Broken::StampBack);
}
