use latchwork_core::Claim::{self, Exclusive as W, Permits, Shared as R};

use super::Fault::*;
use super::Server::{Etcd, ZooKeeper};
use super::{Chain, Fault, Server};
use crate::explore::Broken::{self, Believes, Crowd, ForeignLeave, Ghost, TwoHolders, TwoNodes, Uninformed};
use crate::explore::{assert_found_as, assert_sound, long, tests, walk};

const P: Claim = Permits(1);

fn on(server: Server, claims: &[Claim]) -> Chain {
    Chain { server, claims: claims.to_vec(), limit: 2, attempts: 1, ..Chain::default() }
}

fn two(server: Server) -> Chain {
    on(server, &[W, W])
}

fn three(server: Server) -> Chain {
    on(server, &[W, W, W])
}

fn four(of: Chain) -> Chain {
    Chain { claims: vec![W; 4], ..of }
}

fn renaming(server: Server, attempts: u8, unknowns: u8) -> Chain {
    Chain { attempts, unknowns, reuses: true, ..two(server) }
}

fn limited(limit: u32, claims: &[Claim]) -> Chain {
    Chain { limit, limits: vec![2], ..on(Etcd, claims) }
}

fn told() -> Chain {
    Chain { tells: true, ..three(ZooKeeper) }
}

fn handed() -> Chain {
    Chain { hands: true, ..three(Etcd) }
}

fn returning() -> Chain {
    Chain { attempts: 2, returns: true, ..two(ZooKeeper) }
}

fn coming_back() -> Chain {
    Chain { attempts: if long() { 3 } else { 2 }, removals: 1, unknowns: 1, ..returning() }
}

fn found(name: &str, fault: Fault, bounds: Chain, found_as: Broken) {
    assert_found_as(name, Chain { fault: Some(fault), only: Some(found_as), ..bounds }, found_as);
}

fn found_if_long(name: &str, fault: Fault, bounds: Chain, found_as: Broken) {
    if long() {
        found(name, fault, bounds, found_as);
    }
}

/// Also asserts that the bounds are sound without the fault.
fn planted(name: &str, fault: Fault, bounds: Chain, found_as: Broken) {
    found(name, fault, bounds.clone(), found_as);
    assert_sound(name, bounds);
}

fn sound_if_long(name: &str, bounds: Chain) {
    if long() {
        assert_sound(name, bounds);
    }
}

fn sound_on_both(name: &str, bounds: impl Fn(Server) -> Chain) {
    [ZooKeeper, Etcd].into_iter().for_each(|server| assert_sound(name, bounds(server)));
}

fn sound_on_both_if_long(name: &str, bounds: impl Fn(Server) -> Chain) {
    [ZooKeeper, Etcd].into_iter().for_each(|server| sound_if_long(name, bounds(server)));
}

tests! {
    on_etcd_a_listing_without_the_own_node_admits_a_phantom:
        planted(NoOwnNode, Chain { failures: 1, ..two(Etcd) }, Believes),
        found(NoOwnNode, Chain { failures: 1, ..two(Etcd) }, TwoHolders);
    on_zookeeper_the_own_node_in_a_listing_is_not_enough:
        planted(NoDeadline, Chain { failures: 1, ..two(ZooKeeper) }, Believes);
    the_deadline_is_checked_after_a_notice:
        planted(ToldIgnoresDeadline, Chain { failures: 1, ..handed() }, Believes);
    an_event_that_admits_makes_two_holders: planted(EventAdmits, three(ZooKeeper), TwoHolders);
    a_client_that_is_admitted_without_listing_watches_its_own_node:
        planted(OwnUnwatched, Chain { removals: 1, ..two(ZooKeeper) }, Believes),
        planted(OwnUnwatched, Chain { removals: 1, ..two(Etcd) }, Believes);
    the_next_counter_admits_only_behind_an_own_turn_in_the_same_directory:
        planted(DirectoryUnproved, returning(), TwoHolders),
        planted(ReturnOfAWaiter, returning(), TwoHolders),
        planted(ReturnOfAReader, Chain { claims: vec![R, R], ..returning() }, TwoHolders);
    an_announced_release_admits_its_immediate_follower_only:
        planted(AbandonedIsTold, told(), TwoHolders),
        planted(ToldByTheLowest, told(), TwoHolders),
        planted(WriteIsTold, told(), TwoHolders),
        planted(ReaderTells, Chain { claims: vec![R, R, W], ..told() }, TwoHolders),
        planted(OwnUnwatchedBehindOthers, Chain { removals: 1, ..told() }, Believes),
        found_if_long(OwnUnwatchedBehindOthers, four(Chain { removals: 1, ..told() }), TwoHolders),
        planted(MissedReleaseAdmits, Chain { removals: 1, reconnects: 1, ..told() }, Believes),
        found(MissedReleaseAdmits, Chain { removals: 1, reconnects: 1, ..told() }, TwoHolders);
    a_release_notice_admits_the_first_node_behind_an_admitted_one:
        planted(GivingUpSaysNext, handed(), TwoHolders),
        planted(SaidOverOthers, four(Chain { relies: true, ..handed() }), TwoHolders),
        planted(SaidToTheGone, Chain { removals: 1, ..handed() }, Believes),
        found_if_long(SaidToTheGone, four(Chain { removals: 1, ..handed() }), TwoHolders);
    /// A waiting node ahead that gives up says "look".
    a_node_that_relies_on_a_notice_gets_one:
        planted(NobodyUncompared, four(Chain { relies: true, ..handed() }), Uninformed);
    arming_on_what_has_left_sleeps_for_ever:
        planted(ArmingIgnoresAbsence, two(ZooKeeper), Uninformed),
        planted(ArmingIgnoresAbsence, two(Etcd), Uninformed);
    an_absence_that_admits_makes_two_holders: planted(AbsenceAdmits, three(ZooKeeper), TwoHolders);
    arming_looks_at_what_the_read_shows:
        planted(ArmingIgnoresContent, Chain { downgrades: 1, ..on(ZooKeeper, &[W, R]) }, Uninformed);
    a_lost_watch_is_armed_again:
        planted(LostWatchIgnored, Chain { reconnects: 1, ..two(ZooKeeper) }, Uninformed),
        planted(LostWatchIgnored, Chain { reconnects: 1, ..two(Etcd) }, Uninformed);
    readers_that_watch_the_first_writer_are_woken_for_nothing:
        planted(ReadersWatchFirstWriter, on(Etcd, &[W, W, R, R]), Crowd);
    readers_that_watch_their_predecessor_sleep:
        planted(ReadersWatchPredecessor, on(Etcd, &[R, W, R, R]), Uninformed);
    no_choice_of_one_node_is_enough_for_permits:
        planted(PermitsWatchLowest, on(ZooKeeper, &[P, P, P]), Uninformed),
        planted(PermitsWatchLowest, on(Etcd, &[P, P, P]), Uninformed),
        planted(PermitsWatchPredecessor, on(ZooKeeper, &[P, P, P]), Uninformed),
        planted(PermitsWatchPredecessor, on(Etcd, &[P, P, P]), Uninformed);
    without_marks_the_second_waiter_sleeps: planted(NoMarks, on(Etcd, &[P, P, P, P]), Uninformed);
    the_head_waits_for_the_limit_too: planted(HeadIgnoresLimit, limited(1, &[P, P]), Uninformed);
    every_holder_marks_its_node_when_the_limit_changes:
        planted(LimitMarksNobody, limited(3, &[Permits(2), P, P]), Uninformed);
    an_unguarded_mark_makes_a_ghost:
        planted(MarkUnguarded, Chain { unknowns: 1, ..on(Etcd, &[P, P]) }, Ghost);
    a_plain_listing_after_an_unknown_create_makes_a_second_node_or_a_ghost:
        planted(PlainListing, Chain { unknowns: 1, ..two(ZooKeeper) }, TwoNodes),
        planted(PlainListing, Chain { unknowns: 1, ..two(ZooKeeper) }, Ghost);
    without_a_tombstone_a_late_join_is_a_ghost_for_ever:
        planted(NoTombstone, Chain { unknowns: 1, ..two(Etcd) }, Ghost);
    a_join_that_was_found_again_still_needs_the_tombstone:
        planted(NoTombstoneOnceFound, Chain { unknowns: 1, ..two(Etcd) }, Ghost);
    one_name_per_client_lets_a_stale_delete_remove_the_newer_node:
        planted(NamePerClient, Chain { attempts: 2, unknowns: 1, ..two(Etcd) }, ForeignLeave);
    /// A delete needs no condition only if its answer frees the name.
    a_name_is_used_again_only_when_nothing_that_lands_later_can_touch_it:
        planted(NameFreedEarly, renaming(Etcd, 3, 1), ForeignLeave),
        planted(SecondLeaveUnguarded, renaming(Etcd, 3, 1), ForeignLeave);
    /// ZooKeeper finds a node again by its name, so a node that still leaves must not have the same name.
    a_name_is_used_again_only_when_its_node_is_gone:
        planted(NameFreedUnconfirmed, renaming(ZooKeeper, 2, 2), TwoHolders);
    a_downgrade_at_the_tail_admits_a_writer_beside_the_reader:
        planted(DowngradeAtTail, Chain { downgrades: 1, ..two(ZooKeeper) }, TwoHolders);
    readers_that_wake_on_deletes_only_sleep_through_a_downgrade:
        planted(WakeOnDeleteOnly, Chain { downgrades: 1, ..on(Etcd, &[W, R]) }, Uninformed);
    /// On ZooKeeper a downgrade deletes the write node, which looks like a departure.
    a_departure_that_is_a_downgrade_does_not_admit_without_listing_again:
        planted(SoleDespiteDowngrade, Chain { downgrades: 1, ..two(ZooKeeper) }, TwoHolders);
}

tests! {
    every_state_of_three_exclusive_clients:
        sound_on_both(|server| Chain { unknowns: 1, failures: 1, reconnects: 1, ..three(server) }),
        sound_on_both(|server| Chain { removals: 1, reconnects: 1, ..three(server) }),
        sound_on_both(|server| Chain { removals: 1, unknowns: 1, ..three(server) }),
        sound_on_both(|server| Chain { failures: 1, ..renaming(server, 2, if long() { 2 } else { 1 }) });
    every_state_of_announced_releases:
        assert_sound(Chain { failures: 1, removals: 1, reconnects: 1, ..told() }),
        assert_sound(Chain { unknowns: 1, removals: 1, ..told() }),
        assert_sound(Chain { tells: true, attempts: 2, unknowns: 2, reuses: true, ..two(ZooKeeper) }),
        assert_sound(Chain { tells: true, unknowns: 1, removals: 1, ..returning() }),
        assert_sound(four(Chain { removals: u8::from(long()), ..told() }));
    every_state_of_release_notices:
        assert_sound(Chain { failures: 1, removals: 1, reconnects: 1, ..handed() }),
        sound_if_long(Chain { unknowns: 1, removals: 1, ..handed() }),
        sound_if_long(Chain { attempts: 2, reuses: true, ..handed() }),
        sound_if_long(Chain { attempts: 2, relies: true, ..handed() }),
        sound_if_long(Chain { unknowns: 1, failures: 1, removals: 1, ..handed() }),
        sound_if_long(four(Chain { removals: 1, ..handed() })),
        sound_if_long(Chain { claims: vec![W; 5], relies: true, ..handed() });
    every_state_of_clients_that_come_back:
        assert_sound(Chain { failures: 1, ..coming_back() }),
        assert_sound(Chain { claims: vec![W, R], downgrades: 1, ..coming_back() }),
        assert_sound(Chain { reuses: true, reconnects: 1, ..coming_back() }),
        sound_if_long(Chain { claims: vec![W; 3], ..returning() });
    every_state_of_readers_and_writers:
        sound_on_both(|server| Chain { failures: 1, downgrades: 1, ..on(server, &[W, R, W]) }),
        sound_on_both(|server| Chain { removals: 1, downgrades: 1, ..on(server, &[W, R, W]) }),
        sound_on_both_if_long(|server| Chain { downgrades: 1, ..on(server, &[W, R, W, R]) });
    every_state_of_permits:
        sound_on_both(|server| Chain { failures: 1, ..on(server, &[P, P, Permits(2)]) }),
        sound_on_both_if_long(|server| on(server, &[P, P, Permits(2), P])),
        sound_on_both_if_long(|server| Chain { limits: vec![1], ..on(server, &[P, P, P]) });
}

#[test]
fn long_walks() {
    for server in [ZooKeeper, Etcd] {
        for claims in [vec![W; 5], vec![W, R, R, W, R, R], vec![P, Permits(2), P, P, Permits(3), P]] {
            let (permits, shared) = (claims[0] == P, claims.contains(&R));
            let model = Chain {
                limit: 3,
                limits: if permits { vec![4, 3, 5, 3] } else { Vec::new() },
                attempts: 12,
                unknowns: 8,
                failures: 2,
                reconnects: 5,
                // Without downgrades, CHAIN-SOLE-AHEAD admits.
                downgrades: if shared { 6 } else { 0 },
                reuses: true,
                returns: server == ZooKeeper && !permits,
                tells: server == ZooKeeper,
                hands: server == Etcd && !permits && !shared,
                removals: if server == Etcd && !permits { 4 } else { 0 },
                ..on(server, &claims)
            };
            walk("chain", &model, if long() { 600 } else { 300 }, 100_000);
        }
    }
}
