use super::order::Fault::{JoinsAll, KeepsTried, OwnOrder};
use super::order::{self, Members};
use super::validity::Fault::{AnyAnswer, AnyIncarnation, CountsAtOnce, FromArrival, LooksOnce, OwnTtl};
use super::validity::{self, Servers};
use crate::explore::{Broken, assert_found_as, assert_sound, long, tests};

/// One client reaches all members, one not the first, one not the last.
fn of_three() -> Members {
    Members { left_out: [None, Some(0), Some(2)], losses: 1, fault: None }
}

fn all_reach_all() -> Members {
    Members { left_out: [None; order::CLIENTS], losses: 0, fault: None }
}

fn renewed() -> Servers {
    let (until, messages) = if long() { (5, 2) } else { (4, 1) };
    Servers { ttls: [3, 3], until, reach: [&[0, 1, 2]; 2], messages, ..Servers::default() }
}

/// The server that both majorities share forgets its data.
fn forgetful() -> Servers {
    let until = if long() { 6 } else { 5 };
    let bounds = Servers { ttls: [4, 2], until, reach: [&[0, 1], &[1, 2]], ..Servers::default() };
    Servers { restarts: 1, restarted: &[1], late: !long(), messages: 1, ..bounds }
}

fn of_members(name: &str, fault: order::Fault) {
    assert_found_as(name, Members { fault: Some(fault), ..all_reach_all() }, Broken::Stuck);
}

fn of_servers(name: &str, fault: validity::Fault, bounds: Servers) {
    assert_found_as(name, Servers { fault: Some(fault), ..bounds }, Broken::TwoHolders);
}

tests! {
    no_clients_of_a_quorum_wait_for_each_other_for_ever:
        assert_sound(of_three()), assert_sound(all_reach_all());
    no_two_hold_a_majority: assert_sound(renewed()), assert_sound(forgetful());
    quorum_wait_in_order: of_members(OwnOrder);
    quorum_try_whole: of_members(JoinsAll), of_members(KeepsTried);
    quorum_validity: of_servers(FromArrival, renewed()), of_servers(AnyAnswer, renewed());
    quorum_amnesia:
        of_servers(CountsAtOnce, forgetful()),
        of_servers(OwnTtl, forgetful()),
        of_servers(AnyIncarnation, forgetful());
    quorum_same_memory: of_servers(LooksOnce, forgetful());
}
