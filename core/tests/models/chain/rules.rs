//! Runs the model of a chain: it is sound without a fault, and finds every planted one.

use latchwork_core::Claim::{Exclusive as W, Permits, Shared as R};

use super::Server::{Etcd, ZooKeeper};
use super::{Chain, Fault, Server};
use crate::explore::Broken::{self, Believes, Crowd, ForeignLeave, Ghost, TwoHolders, TwoNodes, Uninformed};
use crate::explore::{assert_found, assert_sound, long, walk};

const P: latchwork_core::Claim = Permits(1);

fn on(server: Server, claims: &[latchwork_core::Claim]) -> Chain {
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

/// The model finds the fault, and the same exploration without it finds nothing.
fn planted(name: &str, fault: Fault, bounds: Chain, found_as: Broken) {
    assert_found(name, Chain { fault: Some(fault), only: Some(found_as), ..bounds.clone() });
    assert_sound(&format!("{name}, without the fault"), bounds);
}

#[test]
fn on_etcd_a_listing_without_the_own_node_admits_a_phantom() {
    let bounds = Chain { failures: 1, ..on(Etcd, &[W, W]) };
    planted("chain: own node, etcd", Fault::NoOwnNode, bounds.clone(), Believes);
    assert_found(
        "chain: own node, etcd, two holders",
        Chain { fault: Some(Fault::NoOwnNode), only: Some(TwoHolders), ..bounds },
    );
}

#[test]
fn on_zookeeper_the_own_node_in_a_listing_is_not_enough() {
    planted(
        "chain: deadline, zookeeper",
        Fault::NoDeadline,
        Chain { failures: 1, ..on(ZooKeeper, &[W, W]) },
        Believes,
    );
}

/// The node was there when the notice was sent, and may be gone when the client reads it.
#[test]
fn the_deadline_is_checked_after_a_notice() {
    let bounds = Chain { hands: true, failures: 1, ..on(Etcd, &[W, W, W]) };
    planted("chain: notice, deadline", Fault::ToldIgnoresDeadline, bounds, Believes);
}

#[test]
fn an_event_that_admits_makes_two_holders() {
    planted("chain: event", Fault::EventAdmits, on(ZooKeeper, &[W, W, W]), TwoHolders);
}

/// A client that does not list again must learn of its own removal before it learns of the
/// departure that would admit it.
#[test]
fn a_client_that_is_admitted_without_listing_watches_its_own_node() {
    for server in [ZooKeeper, Etcd] {
        planted(
            "chain: own node watched",
            Fault::OwnUnwatched,
            Chain { removals: 1, ..on(server, &[W, W]) },
            Believes,
        );
    }
}

/// The counter admits a client that comes back before any other has joined, if the directory is the
/// same one and all nodes before its last one have left.
#[test]
fn the_next_counter_admits_only_behind_an_own_turn_in_the_same_directory() {
    let bounds = Chain { attempts: 2, returns: true, ..on(ZooKeeper, &[W, W]) };
    for fault in [Fault::DirectoryUnproved, Fault::ReturnOfAWaiter] {
        planted("chain: own history", fault, bounds.clone(), TwoHolders);
    }
    let bounds = Chain { claims: vec![R, R], ..bounds };
    planted("chain: own history, readers", Fault::ReturnOfAReader, bounds, TwoHolders);
}

/// A release admits the node right behind it, with any number ahead at the listing. It must be a
/// release, and announced in order.
#[test]
fn an_announced_release_admits_its_immediate_follower_only() {
    let bounds = Chain { tells: true, ..on(ZooKeeper, &[W, W, W]) };
    for fault in [Fault::AbandonedIsTold, Fault::ToldByTheLowest, Fault::WriteIsTold] {
        planted("chain: announced", fault, bounds.clone(), TwoHolders);
    }
    let readers = Chain { claims: vec![R, R, W], ..bounds.clone() };
    planted("chain: announced, readers", Fault::ReaderTells, readers, TwoHolders);
    let bounds = Chain { removals: 1, ..bounds };
    let unwatched = Fault::OwnUnwatchedBehindOthers;
    planted("chain: announced, own node", unwatched, bounds.clone(), Believes);
    let two = |fault, bounds| Chain { fault: Some(fault), only: Some(TwoHolders), ..bounds };
    if long() {
        assert_found(
            "chain: announced, own node, two holders",
            two(unwatched, Chain { claims: vec![W; 4], ..bounds.clone() }),
        );
    }
    let bounds = Chain { reconnects: 1, ..bounds };
    planted("chain: announced, missed", Fault::MissedReleaseAdmits, bounds.clone(), Believes);
    assert_found("chain: announced, missed, two holders", two(Fault::MissedReleaseAdmits, bounds));
}

/// An admitted node that leaves admits the first node behind it, if the transaction sees both.
#[test]
fn a_release_notice_admits_the_first_node_behind_an_admitted_one() {
    let bounds = Chain { hands: true, ..on(Etcd, &[W, W, W]) };
    planted("chain: notice", Fault::GivingUpSaysNext, bounds.clone(), TwoHolders);
    let four = Chain { claims: vec![W; 4], relies: true, ..bounds.clone() };
    planted("chain: notice over others", Fault::SaidOverOthers, four, TwoHolders);
    let removed = Chain { removals: 1, ..bounds };
    planted("chain: notice to a gone node", Fault::SaidToTheGone, removed.clone(), Believes);
    if long() {
        let (fault, only, claims) = (Some(Fault::SaidToTheGone), Some(TwoHolders), vec![W; 4]);
        assert_found("chain: notice to a gone node, two holders", Chain { fault, only, claims, ..removed });
    }
}

/// A node that joined behind many gets a notice in the end, whichever node before it leaves or
/// gives up, and watches nothing else.
#[test]
fn a_node_that_relies_on_a_notice_gets_one() {
    let bounds = Chain { hands: true, relies: true, ..on(Etcd, &[W; 4]) };
    planted("chain: notice relied on", Fault::NobodyUncompared, bounds, Uninformed);
}

#[test]
fn arming_on_what_has_left_sleeps_for_ever() {
    for server in [ZooKeeper, Etcd] {
        planted("chain: arm, absence", Fault::ArmingIgnoresAbsence, on(server, &[W, W]), Uninformed);
    }
}

/// An absence is no more than an event: it admits only where no other node was ahead.
#[test]
fn an_absence_that_admits_makes_two_holders() {
    planted("chain: absence admits", Fault::AbsenceAdmits, on(ZooKeeper, &[W, W, W]), TwoHolders);
}

#[test]
fn arming_looks_at_what_the_read_shows() {
    let bounds = Chain { downgrades: 1, ..on(ZooKeeper, &[W, R]) };
    planted("chain: arm, content", Fault::ArmingIgnoresContent, bounds, Uninformed);
}

#[test]
fn a_lost_watch_is_armed_again() {
    for server in [ZooKeeper, Etcd] {
        planted(
            "chain: lost watch",
            Fault::LostWatchIgnored,
            Chain { reconnects: 1, ..on(server, &[W, W]) },
            Uninformed,
        );
    }
}

#[test]
fn readers_that_watch_the_first_writer_are_woken_for_nothing() {
    planted("chain: readers, first writer", Fault::ReadersWatchFirstWriter, on(Etcd, &[W, W, R, R]), Crowd);
}

#[test]
fn readers_that_watch_their_predecessor_sleep() {
    planted(
        "chain: readers, predecessor",
        Fault::ReadersWatchPredecessor,
        on(Etcd, &[R, W, R, R]),
        Uninformed,
    );
}

#[test]
fn no_choice_of_one_node_is_enough_for_permits() {
    for fault in [Fault::PermitsWatchLowest, Fault::PermitsWatchPredecessor] {
        for server in [ZooKeeper, Etcd] {
            planted("chain: permits, one node", fault, on(server, &[P, P, P]), Uninformed);
        }
    }
}

#[test]
fn without_marks_the_second_waiter_sleeps() {
    planted("chain: permits, marks", Fault::NoMarks, on(Etcd, &[P, P, P, P]), Uninformed);
}

#[test]
fn the_head_waits_for_the_limit_too() {
    let bounds = Chain { limit: 1, limits: vec![2], ..on(Etcd, &[P, P]) };
    planted("chain: limit, head", Fault::HeadIgnoresLimit, bounds, Uninformed);
}

#[test]
fn every_holder_marks_its_node_when_the_limit_changes() {
    let bounds = Chain { limit: 3, limits: vec![2], ..on(Etcd, &[Permits(2), Permits(1), Permits(1)]) };
    planted("chain: limit, marks", Fault::LimitMarksNobody, bounds, Uninformed);
}

#[test]
fn an_unguarded_mark_makes_a_ghost() {
    planted("chain: mark", Fault::MarkUnguarded, Chain { unknowns: 1, ..on(Etcd, &[P, P]) }, Ghost);
}

#[test]
fn a_plain_listing_after_an_unknown_create_makes_a_second_node_or_a_ghost() {
    let bounds = Chain { unknowns: 1, ..on(ZooKeeper, &[W, W]) };
    for found_as in [TwoNodes, Ghost] {
        planted("chain: unknown create", Fault::PlainListing, bounds.clone(), found_as);
    }
}

#[test]
fn without_a_tombstone_a_late_join_is_a_ghost_for_ever() {
    planted("chain: tombstone", Fault::NoTombstone, Chain { unknowns: 1, ..on(Etcd, &[W, W]) }, Ghost);
}

#[test]
fn a_join_that_was_found_again_still_needs_the_tombstone() {
    let bounds = Chain { unknowns: 1, ..on(Etcd, &[W, W]) };
    planted("chain: tombstone, found again", Fault::NoTombstoneOnceFound, bounds, Ghost);
}

#[test]
fn one_name_per_client_lets_a_stale_delete_remove_the_newer_node() {
    let bounds = Chain { attempts: 2, unknowns: 1, ..on(Etcd, &[W, W]) };
    planted("chain: name per client", Fault::NamePerClient, bounds, ForeignLeave);
}

/// When names are used again, a delete needs no condition if only its answer frees the name. Every
/// other delete needs one.
#[test]
fn a_name_is_used_again_only_when_nothing_that_lands_later_can_touch_it() {
    let bounds = Chain { attempts: 3, unknowns: 1, reuses: true, ..on(Etcd, &[W, W]) };
    for fault in [Fault::NameFreedEarly, Fault::SecondLeaveUnguarded] {
        planted("chain: names", fault, bounds.clone(), ForeignLeave);
    }
}

/// On ZooKeeper a node is found again by its name, so a node that is leaving must not have the same
/// name.
#[test]
fn a_name_is_used_again_only_when_its_node_is_gone() {
    let bounds = Chain { attempts: 2, unknowns: 2, reuses: true, ..on(ZooKeeper, &[W, W]) };
    planted("chain: names, zookeeper", Fault::NameFreedUnconfirmed, bounds, TwoHolders);
}

#[test]
fn a_downgrade_at_the_tail_admits_a_writer_beside_the_reader() {
    planted(
        "chain: downgrade at the tail",
        Fault::DowngradeAtTail,
        Chain { downgrades: 1, ..on(ZooKeeper, &[W, W]) },
        TwoHolders,
    );
}

#[test]
fn readers_that_wake_on_deletes_only_sleep_through_a_downgrade() {
    let bounds = Chain { downgrades: 1, ..on(Etcd, &[W, R]) };
    planted("chain: downgrade wakes", Fault::WakeOnDeleteOnly, bounds, Uninformed);
}

/// On ZooKeeper a downgrade deletes the write node, which looks like the departure of the only node
/// ahead.
#[test]
fn a_departure_that_is_a_downgrade_does_not_admit_without_listing_again() {
    let bounds = Chain { downgrades: 1, ..on(ZooKeeper, &[W, W]) };
    planted("chain: downgrade, sole ahead", Fault::SoleDespiteDowngrade, bounds, TwoHolders);
}

#[test]
fn every_state_of_three_exclusive_clients() {
    for server in [ZooKeeper, Etcd] {
        let bounds = Chain { unknowns: 1, failures: 1, reconnects: 1, ..on(server, &[W, W, W]) };
        assert_sound("chain: exclusive", bounds);
        assert_sound("chain: removals", Chain { removals: 1, reconnects: 1, ..on(server, &[W, W, W]) });
        let unknown = Chain { removals: 1, unknowns: 1, ..on(server, &[W, W, W]) };
        assert_sound("chain: removals, unknown", unknown);
    }
    let unknowns = if long() { 2 } else { 1 };
    for server in [ZooKeeper, Etcd] {
        let bounds = Chain { attempts: 2, unknowns, failures: 1, reuses: true, ..on(server, &[W, W]) };
        assert_sound("chain: exclusive, names", bounds);
    }
}

#[test]
fn every_state_of_announced_releases() {
    let bounds = Chain { tells: true, ..on(ZooKeeper, &[W, W, W]) };
    assert_sound(
        "chain: announced releases",
        Chain { failures: 1, removals: 1, reconnects: 1, ..bounds.clone() },
    );
    assert_sound("chain: announced releases, unknown", Chain { unknowns: 1, removals: 1, ..bounds.clone() });
    let two = Chain { claims: vec![W; 2], attempts: 2, unknowns: 2, ..bounds.clone() };
    assert_sound("chain: announced releases, names", Chain { reuses: true, ..two.clone() });
    assert_sound(
        "chain: announced releases, returns",
        Chain { returns: true, unknowns: 1, removals: 1, ..two },
    );
    let removals = u8::from(long());
    assert_sound("chain: announced releases, four", Chain { claims: vec![W; 4], removals, ..bounds });
}

#[test]
fn every_state_of_release_notices() {
    let bounds = Chain { hands: true, ..on(Etcd, &[W, W, W]) };
    assert_sound(
        "chain: release notices",
        Chain { failures: 1, removals: 1, reconnects: 1, ..bounds.clone() },
    );
    let relies = Chain { relies: true, ..bounds.clone() };
    if long() {
        assert_sound("chain: release notices, unknown", Chain { unknowns: 1, removals: 1, ..bounds.clone() });
        let names = Chain { attempts: 2, reuses: true, ..bounds.clone() };
        assert_sound("chain: release notices, names", names);
        assert_sound("chain: release notices, again", Chain { attempts: 2, ..relies.clone() });
        let removals = 1;
        assert_sound(
            "chain: release notices, all",
            Chain { unknowns: 1, failures: 1, removals, ..bounds.clone() },
        );
        assert_sound("chain: release notices, four", Chain { claims: vec![W; 4], removals, ..bounds });
        assert_sound("chain: release notices, five", Chain { claims: vec![W; 5], ..relies });
    }
}

#[test]
fn every_state_of_clients_that_come_back() {
    let attempts = if long() { 3 } else { 2 };
    let bounds = Chain { attempts, returns: true, removals: 1, unknowns: 1, ..on(ZooKeeper, &[W, W]) };
    assert_sound("chain: clients that come back", Chain { failures: 1, ..bounds.clone() });
    assert_sound(
        "chain: clients that come back, readers",
        Chain { claims: vec![W, R], downgrades: 1, ..bounds.clone() },
    );
    assert_sound("chain: clients that come back, names", Chain { reuses: true, reconnects: 1, ..bounds });
    if long() {
        assert_sound(
            "chain: clients that come back, three",
            Chain { attempts: 2, returns: true, ..on(ZooKeeper, &[W, W, W]) },
        );
    }
}

#[test]
fn every_state_of_readers_and_writers() {
    for server in [ZooKeeper, Etcd] {
        assert_sound("chain: shared", Chain { failures: 1, downgrades: 1, ..on(server, &[W, R, W]) });
        assert_sound(
            "chain: shared removals",
            Chain { removals: 1, downgrades: 1, ..on(server, &[W, R, W]) },
        );
        if long() {
            assert_sound("chain: shared, four", Chain { downgrades: 1, ..on(server, &[W, R, W, R]) });
        }
    }
}

#[test]
fn every_state_of_permits() {
    for server in [ZooKeeper, Etcd] {
        assert_sound("chain: permits", Chain { failures: 1, ..on(server, &[P, P, Permits(2)]) });
        if long() {
            assert_sound("chain: permits, four", on(server, &[P, P, Permits(2), P]));
            assert_sound("chain: limits", Chain { limits: vec![1], ..on(server, &[P, P, P]) });
        }
    }
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
                // Without downgrades the departure of the only node ahead admits without another
                // listing.
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
