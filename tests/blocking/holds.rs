//! What a guard tells: losses, states, and the end of work.

use std::thread;
use std::time::Duration;

use latchwork::blocking::MultiLock;
use latchwork::contracts::LeaseState;
use latchwork::{Acquire, Ended, ErrorKind, LostReason, Owner, Release};

use super::{PATIENCE, connect, store};

#[test]
fn a_waiting_thread_hears_of_a_loss() {
    let url = store();
    let (coordinator, operator) = (connect(&url), connect(&url));
    let hold = coordinator.mutex("held").expect("a key").acquire().expect("free");
    let mut states = hold.states();
    assert_eq!(states.next().expect("an answer").expect("a state"), LeaseState::Live);
    let lost = hold.lost();
    let waiting = thread::spawn(move || lost.wait_within(PATIENCE));
    let mutex = operator.mutex("held").expect("a key");
    let holder = mutex.queue(0, 1).expect("listed")[0].sequence;
    assert!(mutex.force_release(holder).expect("removed"));
    let ended = waiting.join().expect("no panic").expect("waited");
    assert_eq!(ended, Some(Ended::Lost(LostReason::Revoked)));
    let states: Result<Vec<_>, _> = states.collect();
    assert_eq!(states.expect("states").last(), Some(&LeaseState::Lost(LostReason::Revoked)));
    assert_eq!(hold.check().expect_err("lost").lost_reason(), Some(LostReason::Revoked));
    assert_eq!(hold.release().expect("an answer"), Release::AlreadyLost(LostReason::Revoked));
    coordinator.close().expect("closed");
    operator.close().expect("closed");
}

#[test]
fn work_under_several_locks_names_the_one_that_was_lost() {
    let coordinator = connect(&store());
    let [a, b] = ["a", "b"].map(|key| coordinator.mutex(key).expect("a key"));
    let both = MultiLock::new([a.into(), b.clone().into()]).expect("two members");
    let lost = both.with_lock(|hold| {
        let holder = b.queue(0, 1).expect("listed")[0].sequence;
        assert!(b.force_release(holder).expect("removed"));
        hold.lost().wait().expect("waited")
    });
    let error = lost.expect_err("lost under it");
    assert_eq!((error.key(), error.lost_reason()), (Some("b"), Some(LostReason::Revoked)));
    coordinator.close().expect("closed");
}

#[test]
fn work_behind_a_loss_answers_lost() {
    let coordinator = connect(&store());
    let mutex = coordinator.mutex("held").expect("a key");
    let bounded = Acquire::new().max_hold(Duration::from_millis(50));
    let hold = mutex.acquire_with(bounded).expect("free");
    // The work sees its own loss, and nothing stops it.
    let error =
        hold.run(|| assert_eq!(hold.lost().wait().expect("waited"), Ended::Lost(LostReason::MaxHold)));
    assert_eq!(error.expect_err("lost under it").lost_reason(), Some(LostReason::MaxHold));
    let mut ran = false;
    let error = hold.run(|| ran = true).expect_err("lost before it");
    assert_eq!((ran, error.operation(), error.key()), (false, Some("run"), Some("held")));
    drop(hold);
    let error = mutex.with_lock(|hold| {
        let this = mutex.queue(0, 1).expect("listed")[0].sequence;
        assert!(mutex.force_release(this).expect("removed"));
        hold.lost().wait().expect("waited")
    });
    assert_eq!(error.expect_err("lost under it").lost_reason(), Some(LostReason::Revoked));
    // And a hold that its own work gives back.
    let hold = mutex.acquire().expect("free");
    let error = hold.run(|| hold.release().expect("held")).expect_err("released under it");
    assert_eq!(error.lost_reason(), Some(LostReason::Released));
    coordinator.close().expect("closed");
}

#[test]
fn a_bound_ends_each_wait() {
    let coordinator = connect(&store());
    let within = Duration::from_millis(20);
    let is_late = |error: latchwork::Error| assert_eq!(error.kind(), &ErrorKind::Timeout, "{error}");
    let hold = coordinator.mutex("held").expect("a key").acquire().expect("free");
    is_late(coordinator.mutex("held").expect("a key").acquire_within(within).expect_err("held"));
    is_late(coordinator.barrier("round", 2).expect("a key").wait_within(within).expect_err("alone"));
    is_late(coordinator.double_barrier("batch", 2).expect("a key").enter_within(within).expect_err("alone"));
    is_late(
        coordinator.count_down_latch("latch", 1).expect("a key").wait_within(within).expect_err("closed"),
    );
    let mut watch = coordinator.shared_value("value").expect("a key").watch().expect("watched");
    assert_eq!(watch.changed().expect("the first answer"), None);
    let late = watch.changed_within(within).expect_err("nobody writes");
    assert_eq!((late.operation(), late.key()), (Some("watch"), Some("value")));
    is_late(late);
    let mut members = coordinator.group("group").expect("a key").watch().expect("watched");
    assert!(members.changed().expect("the first answer").is_empty());
    is_late(members.changed_within(within).expect_err("nobody joins"));
    is_late(members.changes_within(within).expect_err("nobody joins"));
    let mut observer = coordinator.election("election").expect("a key").observe().expect("observed");
    assert_eq!(observer.changed().expect("the first answer"), None);
    is_late(observer.changed_within(within).expect_err("nobody stands"));
    drop(hold);
    coordinator.close().expect("closed");
}

#[test]
fn one_who_leaves_a_double_barrier_late_is_out() {
    let coordinator = connect(&store());
    let batch = coordinator.double_barrier("batch", 2).expect("a key");
    thread::scope(|scope| {
        let other = scope.spawn(|| batch.enter().expect("entered"));
        let one = batch.enter().expect("entered");
        let other = other.join().expect("no panic");
        let late = one.leave_within(Duration::from_millis(20)).expect_err("the other is inside");
        assert_eq!(late.kind(), &ErrorKind::Timeout, "{late}");
        other.leave_within(PATIENCE).expect("the first is out");
    });
    coordinator.close().expect("closed");
}

#[test]
fn the_owner_of_a_thread_is_the_one_whose_scope_it_is_in() {
    let coordinator = connect(&store());
    let ledger = coordinator.reentrant_mutex("ledger").expect("a key");
    assert_eq!(ledger.acquire().expect_err("no owner").kind(), &ErrorKind::NoOwner);
    let owner = Owner::new("month-end");
    let outer = ledger.acquire_as(&owner).expect("free");
    owner.sync_scope(|| {
        let inner = ledger.acquire().expect("entered again");
        assert_eq!((inner.owner(), ledger.holds(&owner)), (&owner, 2));
        // Another thread is in no scope.
        let elsewhere = thread::scope(|scope| scope.spawn(Owner::current).join().expect("no panic"));
        assert_eq!(elsewhere, None);
    });
    assert_eq!(outer.release().expect("held"), Release::Released);
    coordinator.close().expect("closed");
}
