//! Model C, run: without a fault nothing is found, and every planted fault is.

use super::ends::{self, Ends};
use super::nodes::{self, Nodes};
use super::proof::{self, Session};
use crate::explore::{Broken, assert_sound, exhaustively, long, walk};

fn two_nodes() -> Nodes {
    Nodes { ttl: 3, ticks: 5, sleeps: 0, forgets: 0, strict: false, fault: None }
}

fn session() -> Session {
    Session { ttl: 12, ticks: 30, slow: 1, failovers: 1, fault: None }
}

/// Its margin is longer than a tick.
fn an_end() -> Ends {
    Ends { ttl: 12, end: 3, ticks: 8, fault: None }
}

fn finds<P: crate::explore::Protocol>(name: &str, faulty: P, found_as: Broken) {
    let found =
        exhaustively(name, faulty).unwrap_or_else(|| panic!("{name}: the planted fault was not found"));
    println!("  {}", found.trace.join("\n  "));
    assert_eq!(found.broken, found_as, "{name}");
}

fn planted(name: &str, fault: nodes::Fault, bounds: Nodes, found_as: Broken) {
    finds(name, Nodes { fault: Some(fault), ..bounds.clone() }, found_as);
    assert_sound(&format!("{name}, without the fault"), bounds);
}

#[test]
fn c1_a_deadline_of_the_whole_lease_outlives_the_older_node() {
    planted("c1", nodes::Fault::LeaseWide, two_nodes(), Broken::Believes);
}

#[test]
fn c2_a_clock_that_does_not_count_sleep_believes_too_long() {
    planted("c2", nodes::Fault::MonotonicClock, Nodes { sleeps: 2, ..two_nodes() }, Broken::Believes);
}

/// Not a fault of ours: the token is the answer to it. The model shows that it is found, and told by the next renewal.
#[test]
fn c3_a_failover_that_forgets_cannot_be_known_at_once() {
    finds("c3 at once", Nodes { forgets: 1, strict: true, ..two_nodes() }, Broken::Believes);
}

#[test]
fn c3_a_node_that_was_forgotten_is_told_within_a_renewal() {
    let bounds = Nodes { ttl: 6, ticks: 3, forgets: 1, ..two_nodes() };
    planted("c3 told", nodes::Fault::GoneIgnored, bounds, Broken::Slow);
}

#[test]
fn c4_a_proof_by_a_read_believes_behind_a_follower_that_is_cut_off() {
    finds("c4 read", Session { fault: Some(proof::Fault::ByRead), ..session() }, Broken::Believes);
    assert_sound("c4", session());
}

#[test]
fn c4_a_write_that_counts_from_its_own_send_believes_too_long() {
    finds("c4 own send", Session { fault: Some(proof::Fault::FromOwnSend), ..session() }, Broken::Believes);
    assert_sound("c4", session());
}

#[test]
fn c4_contacts_closer_than_the_pings_prove_nothing() {
    finds("c4 closer", Session { fault: Some(proof::Fault::CloserThanPings), ..session() }, Broken::Believes);
    assert_sound("c4", session());
}

#[test]
fn c5_a_late_reply_revives_what_was_seen_lost() {
    planted("c5", nodes::Fault::LateReplies, two_nodes(), Broken::Revived);
}

fn ended(name: &str, fault: ends::Fault, found_as: Broken) {
    finds(name, Ends { fault: Some(fault), ..an_end() }, found_as);
    assert_sound("c7", an_end());
}

#[test]
fn c7_a_node_that_is_left_at_its_fixed_end_lets_the_next_in_during_a_deed() {
    ended("c7 at the end", ends::Fault::AtTheEnd, Broken::TwoHolders);
}

#[test]
fn c7_a_drop_behind_the_fixed_end_is_no_release() {
    ended("c7 by the drop", ends::Fault::ByTheDrop, Broken::TwoHolders);
}

#[test]
fn c7_a_close_without_the_margin_lets_the_next_in_during_a_deed() {
    ended("c7 closes at once", ends::Fault::ClosesAtOnce, Broken::TwoHolders);
}

#[test]
fn c7_a_close_that_does_not_tell_first_waits_for_nothing() {
    ended("c7 closes untold", ends::Fault::ClosesUntold, Broken::TwoHolders);
}

#[test]
fn c7_a_close_waits_for_a_hold_that_was_dropped_behind_its_fixed_end_too() {
    ended("c7 closes over the dropped", ends::Fault::ClosesOverTheDropped, Broken::TwoHolders);
}

#[test]
fn c7_a_hold_that_nobody_gives_back_at_its_fixed_end_outlives_it() {
    ended("c7 stays", ends::Fault::Stays, Broken::Slow);
}

#[test]
fn c7_a_hold_that_was_renewed_before_its_fixed_end_is_given_back_a_margin_behind_it() {
    assert_sound("c7 renewed", Ends { end: 14, ticks: 17, ..an_end() });
}

#[test]
fn c_long_walks() {
    let steps = if long() { 300_000 } else { 200_000 };
    walk("C nodes", &Nodes { ttl: 8, ticks: 200, sleeps: 20, ..two_nodes() }, 600, steps);
    walk("C ends", &Ends { ttl: 30, end: 70, ticks: 90, fault: None }, 400, steps);
    walk("C session", &Session { ttl: 20, ticks: 200, slow: 1, failovers: 6, fault: None }, 800, steps);
}
