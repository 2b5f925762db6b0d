//! Runs the models of a majority: they are sound without a fault, and find every planted one.

use super::order::{self, Members};
use super::validity::{self, Servers};
use crate::explore::{Broken, assert_found_as, assert_sound, long};

/// One client reaches all members, one leaves out the first, one the last.
fn of_three() -> Members {
    Members { left_out: [None, Some(0), Some(2)], losses: 1, fault: None }
}

fn all_reach_all() -> Members {
    Members { left_out: [None; order::CLIENTS], losses: 0, fault: None }
}

/// Nothing is started again.
fn renewed() -> Servers {
    Servers {
        ttls: [3, 3],
        until: if long() { 5 } else { 4 },
        reach: [&[0, 1, 2]; 2],
        restarts: 0,
        restarted: &[],
        late: false,
        messages: if long() { 2 } else { 1 },
        fault: None,
    }
}

/// The one server that both majorities share forgets.
fn forgetful() -> Servers {
    Servers {
        ttls: [4, 2],
        until: if long() { 6 } else { 5 },
        reach: [&[0, 1], &[1, 2]],
        restarts: 1,
        restarted: &[1],
        late: !long(),
        messages: 1,
        fault: None,
    }
}

#[test]
fn no_clients_of_a_quorum_wait_for_each_other_for_ever() {
    assert_sound("quorum: some left out", of_three());
    assert_sound("quorum: all reached", all_reach_all());
}

#[test]
fn no_two_hold_a_majority() {
    assert_sound("quorum: renewed", renewed());
    assert_sound("quorum: forgetful", forgetful());
}

#[test]
fn quorum_wait_in_order() {
    let fault = Some(order::Fault::OwnOrder);
    assert_found_as("quorum: order", Members { fault, ..all_reach_all() }, Broken::Stuck);
}

#[test]
fn quorum_try_whole() {
    let faulty = |fault| Members { fault: Some(fault), ..all_reach_all() };
    assert_found_as("quorum: joins all", faulty(order::Fault::JoinsAll), Broken::Stuck);
    assert_found_as("quorum: kept", faulty(order::Fault::KeepsTried), Broken::Stuck);
}

#[test]
fn quorum_validity() {
    let faulty = |fault| Servers { fault: Some(fault), ..renewed() };
    assert_found_as("quorum: arrival", faulty(validity::Fault::FromArrival), Broken::TwoHolders);
    assert_found_as("quorum: any answer", faulty(validity::Fault::AnyAnswer), Broken::TwoHolders);
}

#[test]
fn quorum_amnesia() {
    let faulty = |fault| Servers { fault: Some(fault), ..forgetful() };
    assert_found_as("quorum: at once", faulty(validity::Fault::CountsAtOnce), Broken::TwoHolders);
    assert_found_as("quorum: own TTL", faulty(validity::Fault::OwnTtl), Broken::TwoHolders);
    assert_found_as("quorum: any incarnation", faulty(validity::Fault::AnyIncarnation), Broken::TwoHolders);
}

#[test]
fn quorum_same_memory() {
    let faulty = Servers { fault: Some(validity::Fault::LooksOnce), ..forgetful() };
    assert_found_as("quorum: looks once", faulty, Broken::TwoHolders);
}
