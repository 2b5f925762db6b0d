//! Model C, run: without a fault nothing is found, and every planted fault is.

use super::nodes::{self, Nodes};
use super::proof::{self, Session};
use crate::explore::{Broken, assert_sound, exhaustively, long, walk};

fn two_nodes() -> Nodes {
    Nodes { ttl: 3, ticks: 5, sleeps: 0, forgets: 0, strict: false, fault: None }
}

fn session() -> Session {
    Session { ttl: 12, ticks: 30, slow: 1, failovers: 1, fault: None }
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

#[test]
fn c_long_walks() {
    let steps = if long() { 300_000 } else { 200_000 };
    walk("C nodes", &Nodes { ttl: 8, ticks: 200, sleeps: 20, ..two_nodes() }, 600, steps);
    walk("C session", &Session { ttl: 20, ticks: 200, slow: 1, failovers: 6, fault: None }, 800, steps);
}
