//! Model A, run: without a fault nothing is found, and every planted fault is.

use latchwork_core::decide::Claim::{Exclusive as W, Permits, Shared as R};

use super::{Fault, Redis};
use crate::explore::Broken::{
    self, ForeignLeave, Ghost, Overtaken, Slow, Stuck, TokenBack, TwoHolders, TwoNodes, Uninformed,
};
use crate::explore::{assert_found, assert_sound, long, walk};

/// Two clients, one exclusive lock, a TTL of three ticks, no failure but what a test adds.
fn small() -> Redis {
    Redis {
        claims: vec![W, W],
        limit: 0,
        ttl: 3,
        ticks: 0,
        attempts: vec![1; 3],
        repeats: 0,
        in_flight: 3,
        losses: 0,
        crashes: 0,
        slow: 0,
        back: 0,
        tries: false,
        fault: None,
        only: None,
    }
}

/// The fault is found, and without it the same exploration finds nothing.
fn planted(name: &str, fault: Fault, bounds: Redis, found_as: Broken) {
    assert_found(name, Redis { fault: Some(fault), only: Some(found_as), ..bounds.clone() });
    assert_sound(&format!("{name}, without the fault"), bounds);
}

#[test]
fn a1_dropping_only_the_first_node_delays_the_first_live_waiter() {
    let bounds = Redis { claims: vec![W, W, W], crashes: 2, in_flight: 2, ..small() };
    planted("a1 prune", Fault::PruneFirstOnly, bounds, Slow);
}

#[test]
fn a1_admitting_against_holders_only_overtakes() {
    for (claims, limit) in [(vec![R, W, R], 0), (vec![Permits(1), Permits(2), Permits(1)], 2)] {
        planted("a1 admit", Fault::AgainstHoldersOnly, Redis { claims, limit, ..small() }, Overtaken);
    }
}

#[test]
fn a3_a_deadline_counted_from_the_arrival_makes_two_holders() {
    planted("a3", Fault::FromArrival, Redis { ticks: 3, ..small() }, TwoHolders);
}

#[test]
fn a4_a_margin_below_the_drift_makes_two_holders() {
    planted("a4", Fault::NoMargin, Redis { ticks: 3, slow: 1, ..small() }, TwoHolders);
}

#[test]
fn a4_a_drift_beyond_the_margin_makes_two_holders() {
    assert_found("a4 drift 2", Redis { ttl: 4, ticks: 5, slow: 2, only: Some(TwoHolders), ..small() });
}

#[test]
fn a5_late_replies_and_renewals_by_id_revive_a_lost_hold() {
    let bounds = Redis { ttl: 2, ticks: 2, repeats: 1, ..small() };
    planted("a5", Fault::LateRepliesAndNamesById, bounds.clone(), TwoHolders);
    assert_found(
        "a5 token",
        Redis { fault: Some(Fault::LateRepliesAndNamesById), only: Some(TokenBack), ..bounds },
    );
}

#[test]
fn a6_a_hand_off_that_renews_makes_two_holders() {
    planted(
        "a6 renews",
        Fault::HandOffRenews,
        Redis { ticks: 3, attempts: vec![2, 1], in_flight: 2, ..small() },
        TwoHolders,
    );
}

#[test]
fn a6_a_hand_off_for_an_earlier_attempt_makes_two_holders() {
    planted("a6 queue", Fault::HandOffByQueueOnly, Redis { attempts: vec![2, 2], ..small() }, TwoHolders);
}

#[test]
fn a7_a_hand_off_that_overtakes_the_join_is_not_lost() {
    planted("a7", Fault::NoLatch, small(), Uninformed);
}

#[test]
fn a8_an_admission_that_extends_delays_behind_every_dead_waiter() {
    let bounds = Redis { claims: vec![W, W, W], ticks: 1, crashes: 2, in_flight: 2, ..small() };
    planted("a8", Fault::AdmissionExtends, bounds, Slow);
}

#[test]
fn a9_a_join_that_always_adds_makes_two_nodes() {
    planted("a9 look-up", Fault::NoLookUpById, Redis { repeats: 1, ..small() }, TwoNodes);
}

#[test]
fn a9_one_id_for_all_attempts_lets_an_old_leave_remove_the_newer_node() {
    let bounds = Redis { attempts: vec![2, 1], repeats: 1, ..small() };
    planted("a9 ids", Fault::OneIdForAllAttempts, bounds, ForeignLeave);
}

#[test]
fn a10_a_leave_by_client_removes_the_newer_node() {
    planted("a10", Fault::LeaveByClient, Redis { attempts: vec![2, 1], repeats: 1, ..small() }, ForeignLeave);
}

#[test]
fn a11_without_a_tombstone_a_late_join_makes_a_ghost() {
    planted("a11", Fault::NoTombstone, small(), Ghost);
}

#[test]
fn a12_a_renewal_that_tells_nothing_leaves_the_admitted_asleep() {
    planted("a12 state", Fault::RenewalTellsNothing, Redis { losses: 1, ..small() }, Stuck);
}

#[test]
fn a12_a_renewal_that_drops_nothing_waits_behind_the_dead_for_ever() {
    planted("a12 prune", Fault::RenewDoesNotPrune, Redis { crashes: 1, ..small() }, Stuck);
}

#[test]
fn a13_looking_at_renewals_only_is_later_than_one_ttl() {
    planted("a13", Fault::LooksAtRenewalsOnly, Redis { ttl: 6, ticks: 2, crashes: 1, ..small() }, Slow);
}

#[test]
fn a14_whom_a_join_or_renewal_admits_is_told() {
    planted("a14", Fault::OnlyLeavesPublish, Redis { ticks: 3, ..small() }, Uninformed);
}

#[test]
fn a17_a_server_clock_that_steps_back_delays_nobody_beyond_the_ttl() {
    planted("a17", Fault::NoClamp, Redis { crashes: 1, back: 2, ..small() }, Slow);
}

/// Everything at once, within bounds that can be searched to the end.
#[test]
fn a_every_state_of_two_clients() {
    let time = if long() { 3 } else { 2 };
    let attempts = vec![2, 1];
    let bounds = Redis { ttl: time, ticks: time, attempts, losses: 1, crashes: 1, in_flight: 2, ..small() };
    assert_sound("A exclusive", bounds);
}

#[test]
fn a_every_state_of_three_clients_without_time() {
    for (claims, limit) in
        [(vec![W, W, W], 0), (vec![R, W, R], 0), (vec![Permits(1), Permits(2), Permits(1)], 2)]
    {
        assert_sound("A rules", Redis { claims, limit, losses: 1, crashes: 1, ..small() });
    }
}

#[test]
fn a_long_walks() {
    let mixed: [(Vec<_>, u32); 3] = [
        (vec![W; 4], 0),
        (vec![R, W, R, R, W], 0),
        (vec![Permits(1), Permits(2), Permits(1), Permits(3)], 3),
    ];
    for (claims, limit) in mixed {
        let model = Redis {
            claims,
            limit,
            ttl: if long() { 8 } else { 5 },
            ticks: 60,
            attempts: vec![20; 5],
            repeats: 2,
            in_flight: 8,
            losses: 12,
            crashes: 2,
            slow: 1,
            back: 1,
            tries: true,
            fault: None,
            only: None,
        };
        walk("A", &model, 400, 150_000);
    }
}
