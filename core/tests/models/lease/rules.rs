//! Runs the models of the lease: they are sound without a fault, and find every planted one.

use super::ends::{self, Ends};
use super::nodes::{self, Nodes};
use super::proof::{self, Session};
use crate::explore::{Broken, assert_found_as, assert_sound, long, walk};

fn two_nodes() -> Nodes {
    Nodes { ttl: 3, ticks: 5, sleeps: 0, forgets: 0, strict: false, fault: None }
}

fn session() -> Session {
    Session { ttl: 12, ticks: 30, slow: 1, failovers: 1, fault: None }
}

/// The margin of this TTL is longer than a tick.
fn an_end() -> Ends {
    Ends { ttl: 12, end: 3, ticks: 8, fault: None }
}

fn planted(name: &str, fault: nodes::Fault, bounds: Nodes, found_as: Broken) {
    assert_found_as(name, Nodes { fault: Some(fault), ..bounds.clone() }, found_as);
    assert_sound(&format!("{name}, without the fault"), bounds);
}

#[test]
fn a_deadline_of_the_whole_lease_outlives_the_older_node() {
    planted("lease: deadline per node", nodes::Fault::LeaseWide, two_nodes(), Broken::Believes);
}

#[test]
fn a_clock_that_does_not_count_sleep_believes_too_long() {
    planted(
        "lease: sleep",
        nodes::Fault::MonotonicClock,
        Nodes { sleeps: 2, ..two_nodes() },
        Broken::Believes,
    );
}

/// No client can prevent this, and the fencing token is the answer to it. The next test shows that
/// a renewal reports it.
#[test]
fn a_failover_that_forgets_cannot_be_known_at_once() {
    assert_found_as(
        "lease: forgotten, at once",
        Nodes { forgets: 1, strict: true, ..two_nodes() },
        Broken::Believes,
    );
}

#[test]
fn a_renewal_reports_a_forgotten_node() {
    let bounds = Nodes { ttl: 6, ticks: 3, forgets: 1, ..two_nodes() };
    planted("lease: forgotten, reported", nodes::Fault::GoneIgnored, bounds, Broken::Slow);
}

#[test]
fn a_proof_by_a_read_believes_behind_a_follower_that_is_cut_off() {
    assert_found_as(
        "lease: proof by a read",
        Session { fault: Some(proof::Fault::ByRead), ..session() },
        Broken::Believes,
    );
    assert_sound("lease: proof", session());
}

#[test]
fn a_write_that_counts_from_its_own_send_believes_too_long() {
    assert_found_as(
        "lease: proof from its own send",
        Session { fault: Some(proof::Fault::FromOwnSend), ..session() },
        Broken::Believes,
    );
    assert_sound("lease: proof", session());
}

#[test]
fn contacts_closer_than_the_pings_prove_nothing() {
    assert_found_as(
        "lease: proofs too close",
        Session { fault: Some(proof::Fault::CloserThanPings), ..session() },
        Broken::Believes,
    );
    assert_sound("lease: proof", session());
}

#[test]
fn a_late_reply_revives_what_was_seen_lost() {
    planted("lease: late reply", nodes::Fault::LateReplies, two_nodes(), Broken::Revived);
}

fn ended(name: &str, fault: ends::Fault, found_as: Broken) {
    assert_found_as(name, Ends { fault: Some(fault), ..an_end() }, found_as);
    assert_sound("lease: ends", an_end());
}

#[test]
fn a_leave_at_the_fixed_end_lets_the_next_in_during_the_work() {
    ended("lease: leave at the end", ends::Fault::AtTheEnd, Broken::TwoHolders);
}

#[test]
fn a_drop_after_the_fixed_end_is_no_release() {
    ended("lease: leave by the drop", ends::Fault::ByTheDrop, Broken::TwoHolders);
}

#[test]
fn a_close_without_the_margin_lets_the_next_in_during_the_work() {
    ended("lease: close at once", ends::Fault::ClosesAtOnce, Broken::TwoHolders);
}

#[test]
fn a_close_that_reports_the_loss_late_lets_the_next_in_during_the_work() {
    ended("lease: close reports late", ends::Fault::ClosesUntold, Broken::TwoHolders);
}

#[test]
fn a_close_waits_for_a_guard_that_was_dropped_after_its_fixed_end() {
    ended("lease: close over a dropped guard", ends::Fault::ClosesOverTheDropped, Broken::TwoHolders);
}

#[test]
fn a_node_that_no_client_leaves_at_its_fixed_end_stays() {
    ended("lease: no leave", ends::Fault::Stays, Broken::Slow);
}

#[test]
fn a_hold_that_was_renewed_before_its_fixed_end_leaves_a_margin_after_it() {
    assert_sound("lease: ends, renewed", Ends { end: 14, ticks: 17, ..an_end() });
}

#[test]
fn long_walks() {
    let steps = if long() { 300_000 } else { 200_000 };
    walk("lease: nodes", &Nodes { ttl: 8, ticks: 200, sleeps: 20, ..two_nodes() }, 600, steps);
    walk("lease: ends", &Ends { ttl: 30, end: 70, ticks: 90, fault: None }, 400, steps);
    walk("lease: session", &Session { ttl: 20, ticks: 200, slow: 1, failovers: 6, fault: None }, 800, steps);
}
