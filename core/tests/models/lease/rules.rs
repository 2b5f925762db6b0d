use super::ends::Fault::{AtTheEnd, ByTheDrop, ClosesAtOnce, ClosesOverTheDropped, ClosesUntold, Stays};
use super::ends::{self, Ends};
use super::nodes::Fault::{GoneIgnored, LateReplies, LeaseWide, MonotonicClock};
use super::nodes::{self, Nodes};
use super::proof::Fault::{ByRead, CloserThanPings, FromOwnSend};
use super::proof::{self, Session};
use super::term::Fault::{ByAnyTerm, ReadBefore, Unconfirmed};
use super::term::{self, Term};
use crate::explore::Broken::{self, Believes, Revived, Slow, TwoHolders};
use crate::explore::{assert_found_as, assert_sound, long, tests, walk};

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
    assert_sound(name, bounds);
}

fn proven(name: &str, fault: proof::Fault) {
    assert_found_as(name, Session { fault: Some(fault), ..session() }, Broken::Believes);
    assert_sound(name, session());
}

fn elections() -> Term {
    Term { ttl: 4, ticks: 8, elections: 2, fault: None }
}

fn renewed(name: &str, fault: term::Fault) {
    assert_found_as(name, Term { fault: Some(fault), ..elections() }, Broken::Believes);
    assert_sound(name, elections());
}

fn ended(name: &str, fault: ends::Fault, found_as: Broken) {
    assert_found_as(name, Ends { fault: Some(fault), ..an_end() }, found_as);
    assert_sound(name, an_end());
}

tests! {
    a_deadline_of_the_whole_lease_outlives_the_older_node: planted(LeaseWide, two_nodes(), Believes);
    a_clock_that_does_not_count_sleep_believes_too_long:
        planted(MonotonicClock, Nodes { sleeps: 2, ..two_nodes() }, Believes);
    /// No client can prevent this: the fencing token is the answer.
    a_failover_that_forgets_cannot_be_known_at_once:
        assert_found_as(Nodes { forgets: 1, strict: true, ..two_nodes() }, Believes);
    a_renewal_reports_a_forgotten_node:
        planted(GoneIgnored, Nodes { ttl: 6, ticks: 3, forgets: 1, ..two_nodes() }, Slow);
    a_late_reply_revives_what_was_seen_lost: planted(LateReplies, two_nodes(), Revived);

    a_proof_by_a_read_believes_behind_a_follower_that_is_cut_off: proven(ByRead);
    a_write_that_counts_from_its_own_send_believes_too_long: proven(FromOwnSend);
    contacts_closer_than_the_pings_prove_nothing: proven(CloserThanPings);

    a_renewal_by_a_deposed_leader_believes_too_long: renewed(Unconfirmed);
    a_read_in_a_later_term_confirms_no_renewal: renewed(ByAnyTerm);
    a_read_before_the_renewal_confirms_nothing: renewed(ReadBefore);

    a_leave_at_the_fixed_end_lets_the_next_in_during_the_work: ended(AtTheEnd, TwoHolders);
    a_drop_after_the_fixed_end_is_no_release: ended(ByTheDrop, TwoHolders);
    a_close_without_the_margin_lets_the_next_in_during_the_work: ended(ClosesAtOnce, TwoHolders);
    a_close_that_reports_the_loss_late_lets_the_next_in_during_the_work: ended(ClosesUntold, TwoHolders);
    a_close_waits_for_a_guard_that_was_dropped_after_its_fixed_end:
        ended(ClosesOverTheDropped, TwoHolders);
    a_node_that_no_client_leaves_at_its_fixed_end_stays: ended(Stays, Slow);
    a_hold_that_was_renewed_before_its_fixed_end_leaves_a_margin_after_it:
        assert_sound(Ends { end: 14, ticks: 17, ..an_end() });
}

#[test]
fn long_walks() {
    let steps = if long() { 300_000 } else { 200_000 };
    walk("lease: nodes", &Nodes { ttl: 8, ticks: 200, sleeps: 20, ..two_nodes() }, 600, steps);
    walk("lease: ends", &Ends { ttl: 30, end: 70, ticks: 90, fault: None }, 400, steps);
    walk("lease: term", &Term { ttl: 12, ticks: 200, elections: 40, fault: None }, 800, steps);
    walk("lease: session", &Session { ttl: 20, ticks: 200, slow: 1, failovers: 6, fault: None }, 800, steps);
}
