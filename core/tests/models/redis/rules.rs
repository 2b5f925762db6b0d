use latchwork_core::Claim::{self, Exclusive as W, Permits, Shared as R};

use super::Fault::*;
use super::{Fault, Redis};
use crate::explore::Broken::{
    self, ForeignLeave, Ghost, Overtaken, Slow, Stuck, TokenBack, TwoHolders, TwoNodes, Uninformed,
};
use crate::explore::{assert_found_as, assert_sound, long, tests, walk};

fn small() -> Redis {
    Redis { claims: vec![W, W], ttl: 3, attempts: vec![1; 3], in_flight: 3, ..Redis::default() }
}

fn three(bounds: Redis) -> Redis {
    Redis { claims: vec![W, W, W], in_flight: 2, ..bounds }
}

fn again(bounds: Redis) -> Redis {
    Redis { attempts: vec![2, 1], ..bounds }
}

fn mixed(bounds: &Redis) -> [Redis; 3] {
    let of = |claims: [Claim; 3], limit| Redis { claims: claims.to_vec(), limit, ..bounds.clone() };
    [of([W, W, W], 0), of([R, W, R], 0), of([Permits(1), Permits(2), Permits(1)], 2)]
}

fn found(name: &str, fault: Fault, bounds: Redis, found_as: Broken) {
    assert_found_as(name, Redis { fault: Some(fault), only: Some(found_as), ..bounds }, found_as);
}

/// Also asserts that the bounds are sound without the fault.
fn planted(name: &str, fault: Fault, bounds: Redis, found_as: Broken) {
    found(name, fault, bounds.clone(), found_as);
    assert_sound(name, bounds);
}

/// More than half a million states: only the long tier visits them all without the fault.
fn among_many(name: &str, fault: Fault, bounds: Redis, found_as: Broken) {
    found(name, fault, bounds.clone(), found_as);
    if long() {
        assert_sound(name, bounds);
    }
}

fn all_sound(name: &str, bounds: [Redis; 3]) {
    bounds.into_iter().for_each(|bounds| assert_sound(name, bounds));
}

tests! {
    dropping_only_the_first_node_delays_the_first_live_waiter:
        planted(PruneFirstOnly, three(Redis { crashes: 2, ..small() }), Slow);
    admitting_against_holders_only_overtakes:
        planted(AgainstHoldersOnly, mixed(&small())[1].clone(), Overtaken),
        planted(AgainstHoldersOnly, mixed(&small())[2].clone(), Overtaken);
    a_deadline_counted_from_the_arrival_makes_two_holders:
        planted(FromArrival, Redis { ticks: 3, ..small() }, TwoHolders);
    a_margin_below_the_drift_makes_two_holders:
        among_many(NoMargin, Redis { ticks: 3, slow: 1, ..small() }, TwoHolders);
    a_drift_beyond_the_margin_makes_two_holders:
        assert_found_as(Redis { ttl: 4, ticks: 5, slow: 2, only: Some(TwoHolders), ..small() }, TwoHolders);
    late_replies_and_renewals_by_id_revive_a_lost_hold:
        among_many(LateRepliesAndNamesById, Redis { ttl: 2, ticks: 2, repeats: 1, ..small() }, TwoHolders),
        found(LateRepliesAndNamesById, Redis { ttl: 2, ticks: 2, repeats: 1, ..small() }, TokenBack);
    a_hand_off_that_renews_makes_two_holders:
        among_many(HandOffRenews, again(Redis { ticks: 3, in_flight: 2, ..small() }), TwoHolders);
    a_hand_off_for_an_earlier_attempt_makes_two_holders:
        planted(HandOffByQueueOnly, Redis { attempts: vec![2, 2], ..small() }, TwoHolders);
    a_hand_off_that_overtakes_the_join_is_not_lost: planted(NoLatch, small(), Uninformed);
    an_admission_that_extends_delays_behind_every_dead_waiter:
        among_many(AdmissionExtends, three(Redis { ticks: 1, crashes: 2, ..small() }), Slow);
    a_join_that_always_adds_makes_two_nodes: planted(NoLookUpById, Redis { repeats: 1, ..small() }, TwoNodes);
    one_id_for_all_attempts_lets_an_old_leave_remove_the_newer_node:
        planted(OneIdForAllAttempts, again(Redis { repeats: 1, ..small() }), ForeignLeave);
    a_leave_by_client_removes_the_newer_node:
        planted(LeaveByClient, again(Redis { repeats: 1, ..small() }), ForeignLeave);
    without_a_tombstone_a_late_join_makes_a_ghost: planted(NoTombstone, small(), Ghost);
    a_renewal_that_answers_no_state_leaves_an_admitted_waiter_asleep:
        planted(RenewalTellsNothing, Redis { losses: 1, ..small() }, Stuck);
    a_renewal_that_drops_nothing_waits_behind_the_dead_for_ever:
        planted(RenewDoesNotPrune, Redis { crashes: 1, ..small() }, Stuck);
    looking_at_renewals_only_is_later_than_one_ttl:
        planted(LooksAtRenewalsOnly, Redis { ttl: 6, ticks: 2, crashes: 1, ..small() }, Slow);
    a_join_or_renewal_notifies_the_nodes_that_it_admits:
        planted(OnlyLeavesPublish, Redis { ticks: 3, ..small() }, Uninformed);
    a_server_clock_that_steps_back_delays_nobody_beyond_the_ttl:
        planted(NoClamp, Redis { crashes: 1, back: 2, ..small() }, Slow);
    every_state_of_two_clients_and_lost_messages:
        assert_sound(Redis { ttl: 2, ticks: 2, losses: 1, in_flight: 2, ..small() });
    every_state_of_three_clients_without_time: all_sound(mixed(&Redis { crashes: 1, ..small() }));
}

#[test]
fn long_walks() {
    let permits = vec![Permits(1), Permits(2), Permits(1), Permits(3)];
    for (claims, limit) in [(vec![W; 4], 0), (vec![R, W, R, R, W], 0), (permits, 3)] {
        let (ttl, attempts) = (if long() { 8 } else { 5 }, vec![20; 5]);
        let bounds = Redis { claims, limit, ttl, ticks: 60, attempts, in_flight: 8, ..small() };
        let model = Redis { repeats: 2, losses: 12, crashes: 2, slow: 1, back: 1, tries: true, ..bounds };
        walk("redis", &model, 400, 150_000);
    }
}

mod larger {
    use super::*;

    /// All kinds of failure, within bounds that can be searched to the end.
    fn two() -> Redis {
        let time = if long() { 3 } else { 2 };
        again(Redis { ttl: time, ticks: time, losses: 1, crashes: 1, in_flight: 2, ..small() })
    }

    tests! {
        every_state_of_two_clients: assert_sound(two());
        every_state_of_three_clients_and_lost_messages:
            all_sound(mixed(&Redis { losses: 1, crashes: 1, ..small() }));
    }
}
