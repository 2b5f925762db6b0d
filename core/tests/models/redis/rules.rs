//! Runs the model of the Redis queue: it is sound without a fault, and finds every planted one.

use latchwork_core::Claim::{self, Exclusive as W, Permits, Shared as R};

use super::{Fault, Redis};
use crate::explore::Broken::{
    self, ForeignLeave, Ghost, Overtaken, Slow, Stuck, TokenBack, TwoHolders, TwoNodes, Uninformed,
};
use crate::explore::{assert_found, assert_sound, long, walk};

/// Two clients, one exclusive lock, a TTL of three ticks, and no failures. Tests add theirs.
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

/// The model finds the fault, and the same exploration without it finds nothing.
fn planted(name: &str, fault: Fault, bounds: Redis, found_as: Broken) {
    assert_found(name, Redis { fault: Some(fault), only: Some(found_as), ..bounds.clone() });
    assert_sound(&format!("{name}, without the fault"), bounds);
}

/// The same within bounds of more than half a million states, all of which the long tier alone visits when there is
/// no fault: the fault is found early.
fn planted_among_many(name: &str, fault: Fault, bounds: Redis, found_as: Broken) {
    if long() {
        return planted(name, fault, bounds, found_as);
    }
    assert_found(name, Redis { fault: Some(fault), only: Some(found_as), ..bounds });
}

#[test]
fn dropping_only_the_first_node_delays_the_first_live_waiter() {
    let bounds = Redis { claims: vec![W, W, W], crashes: 2, in_flight: 2, ..small() };
    planted("redis: drop expired", Fault::PruneFirstOnly, bounds, Slow);
}

#[test]
fn admitting_against_holders_only_overtakes() {
    for (claims, limit) in [(vec![R, W, R], 0), (vec![Permits(1), Permits(2), Permits(1)], 2)] {
        planted(
            "redis: admit in order",
            Fault::AgainstHoldersOnly,
            Redis { claims, limit, ..small() },
            Overtaken,
        );
    }
}

#[test]
fn a_deadline_counted_from_the_arrival_makes_two_holders() {
    planted("redis: deadline", Fault::FromArrival, Redis { ticks: 3, ..small() }, TwoHolders);
}

#[test]
fn a_margin_below_the_drift_makes_two_holders() {
    planted_among_many("redis: margin", Fault::NoMargin, Redis { ticks: 3, slow: 1, ..small() }, TwoHolders);
}

#[test]
fn a_drift_beyond_the_margin_makes_two_holders() {
    assert_found(
        "redis: drift beyond the margin",
        Redis { ttl: 4, ticks: 5, slow: 2, only: Some(TwoHolders), ..small() },
    );
}

#[test]
fn late_replies_and_renewals_by_id_revive_a_lost_hold() {
    let bounds = Redis { ttl: 2, ticks: 2, repeats: 1, ..small() };
    planted_among_many("redis: late reply", Fault::LateRepliesAndNamesById, bounds.clone(), TwoHolders);
    assert_found(
        "redis: late reply, token",
        Redis { fault: Some(Fault::LateRepliesAndNamesById), only: Some(TokenBack), ..bounds },
    );
}

#[test]
fn a_hand_off_that_renews_makes_two_holders() {
    planted_among_many(
        "redis: hand-off renews",
        Fault::HandOffRenews,
        Redis { ticks: 3, attempts: vec![2, 1], in_flight: 2, ..small() },
        TwoHolders,
    );
}

#[test]
fn a_hand_off_for_an_earlier_attempt_makes_two_holders() {
    planted(
        "redis: hand-off by queue",
        Fault::HandOffByQueueOnly,
        Redis { attempts: vec![2, 2], ..small() },
        TwoHolders,
    );
}

#[test]
fn a_hand_off_that_overtakes_the_join_is_not_lost() {
    planted("redis: early hand-off", Fault::NoLatch, small(), Uninformed);
}

#[test]
fn an_admission_that_extends_delays_behind_every_dead_waiter() {
    let bounds = Redis { claims: vec![W, W, W], ticks: 1, crashes: 2, in_flight: 2, ..small() };
    planted_among_many("redis: admission extends", Fault::AdmissionExtends, bounds, Slow);
}

#[test]
fn a_join_that_always_adds_makes_two_nodes() {
    planted("redis: join by id", Fault::NoLookUpById, Redis { repeats: 1, ..small() }, TwoNodes);
}

#[test]
fn one_id_for_all_attempts_lets_an_old_leave_remove_the_newer_node() {
    let bounds = Redis { attempts: vec![2, 1], repeats: 1, ..small() };
    planted("redis: id per attempt", Fault::OneIdForAllAttempts, bounds, ForeignLeave);
}

#[test]
fn a_leave_by_client_removes_the_newer_node() {
    planted(
        "redis: leave by client",
        Fault::LeaveByClient,
        Redis { attempts: vec![2, 1], repeats: 1, ..small() },
        ForeignLeave,
    );
}

#[test]
fn without_a_tombstone_a_late_join_makes_a_ghost() {
    planted("redis: tombstone", Fault::NoTombstone, small(), Ghost);
}

#[test]
fn a_renewal_that_answers_no_state_leaves_an_admitted_waiter_asleep() {
    planted("redis: renewal answers", Fault::RenewalTellsNothing, Redis { losses: 1, ..small() }, Stuck);
}

#[test]
fn a_renewal_that_drops_nothing_waits_behind_the_dead_for_ever() {
    planted("redis: renewal drops", Fault::RenewDoesNotPrune, Redis { crashes: 1, ..small() }, Stuck);
}

#[test]
fn looking_at_renewals_only_is_later_than_one_ttl() {
    planted(
        "redis: look at expiry",
        Fault::LooksAtRenewalsOnly,
        Redis { ttl: 6, ticks: 2, crashes: 1, ..small() },
        Slow,
    );
}

#[test]
fn a_join_or_renewal_notifies_the_nodes_that_it_admits() {
    planted("redis: notify all", Fault::OnlyLeavesPublish, Redis { ticks: 3, ..small() }, Uninformed);
}

#[test]
fn a_server_clock_that_steps_back_delays_nobody_beyond_the_ttl() {
    planted("redis: clamp", Fault::NoClamp, Redis { crashes: 1, back: 2, ..small() }, Slow);
}

#[test]
fn every_state_of_two_clients_and_lost_messages() {
    let bounds = Redis { ttl: 2, ticks: 2, losses: 1, in_flight: 2, ..small() };
    assert_sound("redis: two clients", bounds);
}

fn three_clients() -> [(Vec<Claim>, u32); 3] {
    [(vec![W, W, W], 0), (vec![R, W, R], 0), (vec![Permits(1), Permits(2), Permits(1)], 2)]
}

#[test]
fn every_state_of_three_clients_without_time() {
    for (claims, limit) in three_clients() {
        assert_sound("redis: three clients", Redis { claims, limit, crashes: 1, ..small() });
    }
}

#[test]
fn long_walks() {
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
        walk("redis", &model, 400, 150_000);
    }
}

/// Larger bounds: tier 2.
mod larger {
    use super::*;

    /// All kinds of failure together, within bounds that can be searched to the end.
    #[test]
    fn every_state_of_two_clients() {
        let time = if long() { 3 } else { 2 };
        let attempts = vec![2, 1];
        let bounds =
            Redis { ttl: time, ticks: time, attempts, losses: 1, crashes: 1, in_flight: 2, ..small() };
        assert_sound("redis: two clients", bounds);
    }

    #[test]
    fn every_state_of_three_clients_and_lost_messages() {
        for (claims, limit) in three_clients() {
            assert_sound("redis: three clients", Redis { claims, limit, losses: 1, crashes: 1, ..small() });
        }
    }
}
