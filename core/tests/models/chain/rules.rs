//! Model B, run: without a fault nothing is found, and every planted fault is.

use latchwork_core::decide::Claim::{Exclusive as W, Permits, Shared as R};

use super::Server::{Etcd, ZooKeeper};
use super::{Chain, Fault, Server};
use crate::explore::Broken::{self, Believes, Crowd, ForeignLeave, Ghost, TwoHolders, TwoNodes, Uninformed};
use crate::explore::{assert_found, assert_sound, long, walk};

const P: latchwork_core::decide::Claim = Permits(1);

fn on(server: Server, claims: &[latchwork_core::decide::Claim]) -> Chain {
    Chain {
        server,
        claims: claims.to_vec(),
        limit: 2,
        limits: Vec::new(),
        attempts: 1,
        unknowns: 0,
        failures: 0,
        reconnects: 0,
        downgrades: 0,
        removals: 0,
        reuses: false,
        returns: false,
        tells: false,
        hands: false,
        relies: false,
        fault: None,
        only: None,
    }
}

/// The fault is found, and without it the same exploration finds nothing.
fn planted(name: &str, fault: Fault, bounds: Chain, found_as: Broken) {
    assert_found(name, Chain { fault: Some(fault), only: Some(found_as), ..bounds.clone() });
    assert_sound(&format!("{name}, without the fault"), bounds);
}

#[test]
fn b1_on_etcd_a_listing_without_the_own_node_admits_a_phantom() {
    let bounds = Chain { failures: 1, ..on(Etcd, &[W, W]) };
    planted("b1 etcd", Fault::NoOwnNode, bounds.clone(), Believes);
    assert_found("b1 etcd, two", Chain { fault: Some(Fault::NoOwnNode), only: Some(TwoHolders), ..bounds });
}

#[test]
fn b1_on_zookeeper_the_own_node_in_a_listing_is_not_enough() {
    planted("b1 zookeeper", Fault::NoDeadline, Chain { failures: 1, ..on(ZooKeeper, &[W, W]) }, Believes);
}

/// Its node was there when that was said, but it may hear of it when that is gone.
#[test]
fn b1_the_deadline_is_looked_at_behind_what_was_said() {
    let bounds = Chain { hands: true, failures: 1, ..on(Etcd, &[W, W, W]) };
    planted("b1 said", Fault::ToldIgnoresDeadline, bounds, Believes);
}

#[test]
fn b2_an_event_that_admits_makes_two_holders() {
    planted("b2", Fault::EventAdmits, on(ZooKeeper, &[W, W, W]), TwoHolders);
}

/// Who does not list again must hear of its own removal before it hears of the departure that would admit it.
#[test]
fn b2_who_is_admitted_without_listing_watches_its_own_node() {
    for server in [ZooKeeper, Etcd] {
        planted("b2 own", Fault::OwnUnwatched, Chain { removals: 1, ..on(server, &[W, W]) }, Believes);
    }
}

/// Who comes back before anybody else has joined is let in by the counter, if it is the same directory's and all before it
/// have left.
#[test]
fn b2_the_next_counter_admits_only_behind_an_own_turn_in_the_same_directory() {
    let bounds = Chain { attempts: 2, returns: true, ..on(ZooKeeper, &[W, W]) };
    for fault in [Fault::DirectoryUnproved, Fault::ReturnOfAWaiter] {
        planted("b2 returns", fault, bounds.clone(), TwoHolders);
    }
    let bounds = Chain { claims: vec![R, R], ..bounds };
    planted("b2 returns, readers", Fault::ReturnOfAReader, bounds, TwoHolders);
}

/// A release admits whoever was right behind it, with any number ahead at its listing: but only a release, told in order.
#[test]
fn b2_a_release_that_is_told_admits_its_immediate_follower_alone() {
    let bounds = Chain { tells: true, ..on(ZooKeeper, &[W, W, W]) };
    for fault in [Fault::AbandonedIsTold, Fault::ToldByTheLowest, Fault::WriteIsTold] {
        planted("b2 told", fault, bounds.clone(), TwoHolders);
    }
    let readers = Chain { claims: vec![R, R, W], ..bounds.clone() };
    planted("b2 told, readers", Fault::ReaderTells, readers, TwoHolders);
    let bounds = Chain { removals: 1, ..bounds };
    let unwatched = Fault::OwnUnwatchedBehindOthers;
    planted("b2 told, own", unwatched, bounds.clone(), Believes);
    let two = |fault, bounds| Chain { fault: Some(fault), only: Some(TwoHolders), ..bounds };
    if long() {
        assert_found("b2 told, own, two", two(unwatched, Chain { claims: vec![W; 4], ..bounds.clone() }));
    }
    let bounds = Chain { reconnects: 1, ..bounds };
    planted("b2 told, missed", Fault::MissedReleaseAdmits, bounds.clone(), Believes);
    assert_found("b2 told, missed, two", two(Fault::MissedReleaseAdmits, bounds));
}

/// Whoever was admitted and leaves admits the first that is behind it, where both are there in that transaction.
#[test]
fn b2_what_is_said_admits_the_first_behind_who_was_admitted() {
    let bounds = Chain { hands: true, ..on(Etcd, &[W, W, W]) };
    planted("b2 said", Fault::GivingUpSaysNext, bounds.clone(), TwoHolders);
    let four = Chain { claims: vec![W; 4], relies: true, ..bounds.clone() };
    planted("b2 said, over others", Fault::SaidOverOthers, four, TwoHolders);
    let removed = Chain { removals: 1, ..bounds };
    planted("b2 said, gone", Fault::SaidToTheGone, removed.clone(), Believes);
    if long() {
        let (fault, only, claims) = (Some(Fault::SaidToTheGone), Some(TwoHolders), vec![W; 4]);
        assert_found("b2 said, gone, two", Chain { fault, only, claims, ..removed });
    }
}

/// Whoever joins behind many is spoken to in the end, whoever before it leaves or gives up, and watches for that alone.
#[test]
fn b2_whoever_relies_on_being_spoken_to_is() {
    let bounds = Chain { hands: true, relies: true, ..on(Etcd, &[W; 4]) };
    for fault in [Fault::LastWatcherIsSilent, Fault::SilentThoughSpokenTo, Fault::NobodyUncompared] {
        planted("b2 relies", fault, bounds.clone(), Uninformed);
    }
}

#[test]
fn b3_arming_on_what_has_left_sleeps_for_ever() {
    for server in [ZooKeeper, Etcd] {
        planted("b3 absence", Fault::ArmingIgnoresAbsence, on(server, &[W, W]), Uninformed);
    }
}

/// What is not there to be watched says no more than an event of it: only where nobody else was ahead it admits.
#[test]
fn b3_an_absence_that_admits_makes_two_holders() {
    planted("b3 absence admits", Fault::AbsenceAdmits, on(ZooKeeper, &[W, W, W]), TwoHolders);
}

#[test]
fn b3_arming_looks_at_what_it_shows() {
    let bounds = Chain { downgrades: 1, ..on(ZooKeeper, &[W, R]) };
    planted("b3 content", Fault::ArmingIgnoresContent, bounds, Uninformed);
}

#[test]
fn b4_a_watch_that_was_lost_is_armed_again() {
    for server in [ZooKeeper, Etcd] {
        planted("b4", Fault::LostWatchIgnored, Chain { reconnects: 1, ..on(server, &[W, W]) }, Uninformed);
    }
}

#[test]
fn b5_readers_that_watch_the_first_writer_are_woken_for_nothing() {
    planted("b5 first", Fault::ReadersWatchFirstWriter, on(Etcd, &[W, W, R, R]), Crowd);
}

#[test]
fn b5_readers_that_watch_their_predecessor_sleep() {
    planted("b5 predecessor", Fault::ReadersWatchPredecessor, on(Etcd, &[R, W, R, R]), Uninformed);
}

#[test]
fn b6_no_choice_of_one_node_is_enough_for_permits() {
    for fault in [Fault::PermitsWatchLowest, Fault::PermitsWatchPredecessor] {
        for server in [ZooKeeper, Etcd] {
            planted("b6 one node", fault, on(server, &[P, P, P]), Uninformed);
        }
    }
}

#[test]
fn b6_without_marks_the_second_waiter_sleeps() {
    planted("b6 marks", Fault::NoMarks, on(Etcd, &[P, P, P, P]), Uninformed);
}

#[test]
fn b6b_the_head_waits_for_the_limit_too() {
    let bounds = Chain { limit: 1, limits: vec![2], ..on(Etcd, &[P, P]) };
    planted("b6b head", Fault::HeadIgnoresLimit, bounds, Uninformed);
}

#[test]
fn b6b_every_holder_marks_its_node_when_the_limit_changes() {
    let bounds = Chain { limit: 3, limits: vec![2], ..on(Etcd, &[Permits(2), Permits(1), Permits(1)]) };
    planted("b6b marks", Fault::LimitMarksNobody, bounds, Uninformed);
}

#[test]
fn b7_an_unguarded_mark_makes_a_ghost() {
    planted("b7", Fault::MarkUnguarded, Chain { unknowns: 1, ..on(Etcd, &[P, P]) }, Ghost);
}

#[test]
fn b8_a_plain_listing_after_an_unknown_create_makes_a_second_node_or_a_ghost() {
    let bounds = Chain { unknowns: 1, ..on(ZooKeeper, &[W, W]) };
    for found_as in [TwoNodes, Ghost] {
        planted("b8", Fault::PlainListing, bounds.clone(), found_as);
    }
}

#[test]
fn b9_without_a_tombstone_a_late_join_is_a_ghost_for_ever() {
    planted("b9", Fault::NoTombstone, Chain { unknowns: 1, ..on(Etcd, &[W, W]) }, Ghost);
}

#[test]
fn b9_a_join_that_was_found_again_still_needs_the_tombstone() {
    let bounds = Chain { unknowns: 1, ..on(Etcd, &[W, W]) };
    planted("b9 found", Fault::NoTombstoneOnceFound, bounds, Ghost);
}

#[test]
fn b10_one_name_per_client_lets_a_stale_delete_remove_the_newer_node() {
    let bounds = Chain { attempts: 2, unknowns: 1, ..on(Etcd, &[W, W]) };
    planted("b10", Fault::NamePerClient, bounds, ForeignLeave);
}

/// Where names are used again a delete needs no guard whose answer alone frees the name, and every other needs one.
#[test]
fn b10_a_name_is_used_again_only_when_nothing_that_lands_later_can_touch_it() {
    let bounds = Chain { attempts: 3, unknowns: 1, reuses: true, ..on(Etcd, &[W, W]) };
    for fault in [Fault::NameFreedEarly, Fault::SecondLeaveUnguarded] {
        planted("b10 names", fault, bounds.clone(), ForeignLeave);
    }
}

/// On ZooKeeper a node is found again by its name, and another that is leaving must not bear it.
#[test]
fn b10_a_name_is_used_again_only_when_its_node_is_gone() {
    let bounds = Chain { attempts: 2, unknowns: 2, reuses: true, ..on(ZooKeeper, &[W, W]) };
    planted("b10 gone", Fault::NameFreedUnconfirmed, bounds, TwoHolders);
}

#[test]
fn b12_a_downgrade_at_the_tail_admits_a_writer_beside_the_reader() {
    planted(
        "b12 tail",
        Fault::DowngradeAtTail,
        Chain { downgrades: 1, ..on(ZooKeeper, &[W, W]) },
        TwoHolders,
    );
}

#[test]
fn b12_readers_that_wake_on_deletes_only_sleep_through_a_downgrade() {
    let bounds = Chain { downgrades: 1, ..on(Etcd, &[W, R]) };
    planted("b12 wake", Fault::WakeOnDeleteOnly, bounds, Uninformed);
}

/// On ZooKeeper a downgrade deletes the write node: what looks like the departure of the only node ahead is none.
#[test]
fn b12_a_departure_that_is_a_downgrade_does_not_admit_without_listing_again() {
    let bounds = Chain { downgrades: 1, ..on(ZooKeeper, &[W, W]) };
    planted("b12 sole", Fault::SoleDespiteDowngrade, bounds, TwoHolders);
}

#[test]
fn b_every_state_of_three_exclusive_clients() {
    for server in [ZooKeeper, Etcd] {
        let bounds = Chain { unknowns: 1, failures: 1, reconnects: 1, ..on(server, &[W, W, W]) };
        assert_sound("B exclusive", bounds);
        assert_sound("B removals", Chain { removals: 1, reconnects: 1, ..on(server, &[W, W, W]) });
        let unknown = Chain { removals: 1, unknowns: 1, ..on(server, &[W, W, W]) };
        assert_sound("B removals, unknown", unknown);
    }
    for server in [ZooKeeper, Etcd] {
        let bounds = Chain { attempts: 2, unknowns: 2, failures: 1, reuses: true, ..on(server, &[W, W]) };
        assert_sound("B names", bounds);
    }
}

#[test]
fn b_every_state_of_releases_that_are_told() {
    let bounds = Chain { tells: true, ..on(ZooKeeper, &[W, W, W]) };
    assert_sound("B told", Chain { failures: 1, removals: 1, reconnects: 1, ..bounds.clone() });
    assert_sound("B told, unknown", Chain { unknowns: 1, removals: 1, ..bounds.clone() });
    let two = Chain { claims: vec![W; 2], attempts: 2, unknowns: 2, ..bounds.clone() };
    assert_sound("B told, names", Chain { reuses: true, ..two.clone() });
    assert_sound("B told, returns", Chain { returns: true, unknowns: 1, removals: 1, ..two });
    let removals = u8::from(long());
    assert_sound("B told, four", Chain { claims: vec![W; 4], removals, ..bounds });
}

#[test]
fn b_every_state_of_releases_that_are_handed_on() {
    let bounds = Chain { hands: true, ..on(Etcd, &[W, W, W]) };
    assert_sound("B handed on", Chain { failures: 1, removals: 1, reconnects: 1, ..bounds.clone() });
    assert_sound("B handed on, unknown", Chain { unknowns: 1, removals: 1, ..bounds.clone() });
    let relies = Chain { relies: true, ..bounds.clone() };
    if long() {
        let names = Chain { attempts: 2, reuses: true, ..bounds.clone() };
        assert_sound("B handed on, names", names);
        assert_sound("B handed on, again", Chain { attempts: 2, ..relies.clone() });
        let removals = 1;
        assert_sound("B handed on, all", Chain { unknowns: 1, failures: 1, removals, ..bounds.clone() });
        assert_sound("B handed on, four", Chain { claims: vec![W; 4], removals, ..bounds });
        assert_sound("B handed on, five", Chain { claims: vec![W; 5], ..relies });
    }
}

#[test]
fn b_every_state_of_those_who_come_back() {
    let attempts = if long() { 3 } else { 2 };
    let bounds = Chain { attempts, returns: true, removals: 1, unknowns: 1, ..on(ZooKeeper, &[W, W]) };
    assert_sound("B returns", Chain { failures: 1, ..bounds.clone() });
    assert_sound("B returns, readers", Chain { claims: vec![W, R], downgrades: 1, ..bounds.clone() });
    assert_sound("B returns, names", Chain { reuses: true, reconnects: 1, ..bounds });
    if long() {
        assert_sound("B returns, three", Chain { attempts: 2, returns: true, ..on(ZooKeeper, &[W, W, W]) });
    }
}

#[test]
fn b_every_state_of_readers_and_writers() {
    for server in [ZooKeeper, Etcd] {
        assert_sound("B shared", Chain { failures: 1, downgrades: 1, ..on(server, &[W, R, W]) });
        assert_sound("B shared removals", Chain { removals: 1, downgrades: 1, ..on(server, &[W, R, W]) });
        if long() {
            assert_sound("B shared, four", Chain { downgrades: 1, ..on(server, &[W, R, W, R]) });
        }
    }
}

#[test]
fn b_every_state_of_permits() {
    for server in [ZooKeeper, Etcd] {
        assert_sound("B permits", Chain { failures: 1, ..on(server, &[P, P, Permits(2)]) });
        if long() {
            assert_sound("B permits, four", on(server, &[P, P, Permits(2), P]));
            assert_sound("B limits", Chain { limits: vec![1], ..on(server, &[P, P, P]) });
        }
    }
}

#[test]
fn b_long_walks() {
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
                // Without downgrades the departure of the only node ahead admits without another listing.
                downgrades: if shared { 6 } else { 0 },
                reuses: true,
                returns: server == ZooKeeper && !permits,
                tells: server == ZooKeeper,
                hands: server == Etcd && !permits && !shared,
                removals: if server == Etcd && !permits { 4 } else { 0 },
                ..on(server, &claims)
            };
            walk("B", &model, if long() { 600 } else { 300 }, 100_000);
        }
    }
}
