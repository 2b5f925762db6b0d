//! What guards promise where one owner has several, where a least time keeps them, and at the end of a downgrade.

use std::error::Error as _;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use latchwork_core::contracts::LeaseState;
use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::Acquire;
use latchwork_core::{Clock, Config, Coordinator, ErrorKind, Fenced, Hold, LostReason, Owner, Release};

fn connected(store: &Memory) -> (Coordinator, Link) {
    store.connect(&Config::new("memory")).expect("connected")
}

#[tokio::test(start_paused = true)]
async fn run_ends_when_one_of_an_owners_guards_is_released_by_another_task() {
    let store = Memory::new(Clock::tokio());
    let ((one, _), (two, _)) = (connected(&store), connected(&store));
    let (lock, owner) = (one.rwlock("a").unwrap(), Owner::new("o"));
    let writer = Arc::new(lock.write_as(&owner).await.unwrap());
    let _reader = lock.read_as(&owner).await.unwrap();
    let same = Arc::clone(&writer);
    let work = tokio::spawn(async move { same.run(std::future::pending::<()>()).await });
    tokio::task::yield_now().await;
    writer.release().await.unwrap();
    assert!(two.rwlock("a").unwrap().try_read().await.unwrap().is_some(), "others read now");
    assert!(!writer.is_held());
    let ended = tokio::time::timeout(Duration::from_secs(1), work).await;
    assert!(ended.is_ok(), "the work of a released writer goes on beside other readers");
}

#[tokio::test(start_paused = true)]
async fn lost_stays_pending_after_the_release_of_one_of_an_owners_guards() {
    let store = Memory::new(Clock::tokio());
    let (one, _) = connected(&store);
    let (lock, owner) = (one.reentrant_mutex("a").unwrap(), Owner::new("o"));
    let outer = lock.acquire_as(&owner).await.unwrap();
    let inner = lock.acquire_as(&owner).await.unwrap();
    let (loss, mut states) = (inner.lost(), inner.states());
    states.next().await;
    inner.release().await.unwrap();
    let ended = states.next().now_or_never();
    lock.force_release(outer.token().sequence()).await.unwrap();
    assert_eq!((ended, loss.reason()), (Some(None), None), "a release is no loss; the stream ends with it");
}

#[tokio::test(start_paused = true)]
async fn a_second_release_of_an_owners_last_hold_does_not_lie() {
    let store = Memory::new(Clock::tokio());
    let (one, link) = connected(&store);
    let (lock, owner) = (one.reentrant_mutex("a").unwrap(), Owner::new("o"));
    let guard = lock.acquire_as(&owner).await.unwrap();
    link.cut();
    assert!(tokio::time::timeout(Duration::from_millis(100), guard.release()).await.is_err());
    let second = guard.release().await;
    assert!(second.is_err(), "{second:?} though the server has not heard of it: {:?}", store.contents());
}

#[tokio::test(start_paused = true)]
async fn two_closes_both_wait_for_what_is_kept() {
    let store = Memory::new(Clock::tokio());
    let ((one, _), (two, _)) = (connected(&store), connected(&store));
    let kept = || Acquire::new().hold_at_least(Duration::from_secs(5));
    let guard = one.mutex("a").unwrap().acquire_with(kept()).await.unwrap();
    guard.release().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), one.close()).await.is_err());
    let again = tokio::time::timeout(Duration::from_millis(100), one.close()).await;
    let taken = two.mutex("a").unwrap().try_acquire().await.unwrap();
    assert!(again.is_err() && taken.is_none(), "{again:?}: given back after 0.2 s of 5: {taken:?}");
}

/// One of the two always is, since both come back for another time.
#[tokio::test(start_paused = true)]
async fn a_close_waits_for_what_is_kept_then_and_not_for_what_comes_after() {
    let store = Memory::new(Clock::tokio());
    let (one, _) = connected(&store);
    for (key, after) in [("a", 0), ("b", 5)] {
        let mutex = one.mutex(key).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(after)).await;
            while let Ok(guard) =
                mutex.acquire_with(Acquire::new().hold_at_least(Duration::from_secs(10))).await
            {
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    let closed = tokio::time::timeout(Duration::from_secs(12), one.close()).await;
    assert!(matches!(closed, Ok(Ok(()))), "{closed:?}");
}

#[tokio::test(start_paused = true)]
async fn the_state_of_what_was_released_is_not_live() {
    let store = Memory::new(Clock::tokio());
    let (one, _) = connected(&store);
    let (lock, owner) = (one.reentrant_mutex("a").unwrap(), Owner::new("o"));
    let (outer, inner) = (lock.acquire_as(&owner).await.unwrap(), lock.acquire_as(&owner).await.unwrap());
    inner.release().await.unwrap();
    let released = LeaseState::Lost(LostReason::Released);
    assert_eq!((outer.state(), inner.state()), (LeaseState::Live, released));
    outer.release().await.unwrap();
    assert_eq!(outer.state(), released);
}

#[tokio::test(start_paused = true)]
async fn a_try_of_an_owner_does_not_wait_for_its_other_task() {
    let store = Memory::new(Clock::tokio());
    let ((one, _), (two, _)) = (connected(&store), connected(&store));
    let _held = two.mutex("a").unwrap().acquire().await.unwrap();
    let (lock, owner) = (one.reentrant_mutex("a").unwrap(), Owner::new("o"));
    let (first, same) = (lock.clone(), owner.clone());
    let _waiting = tokio::spawn(async move { first.acquire_as(&same).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let from = tokio::time::Instant::now();
    let tried = lock.try_acquire_as(&owner).await;
    assert!(matches!(tried, Ok(None)), "{tried:?} after {:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_try_answers_within_the_request_timeout() {
    let store = Memory::new(Clock::tokio());
    let (one, link) = connected(&store);
    let (lock, owner) = (one.reentrant_mutex("a").unwrap(), Owner::new("o"));
    link.hold();
    let (first, same) = (lock.clone(), owner.clone());
    let short = Acquire::new().within(Duration::from_millis(1900));
    let _waiting = tokio::spawn(async move { first.acquire_with(&same, short).await });
    tokio::task::yield_now().await;
    let from = tokio::time::Instant::now();
    let tried = lock.try_acquire_as(&owner).await;
    assert!(from.elapsed() < Duration::from_millis(2100), "{tried:?} after {:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_in_an_outage_has_a_source_and_behind_a_holder_none() {
    let store = Memory::new(Clock::tokio());
    let ((one, _), (two, link)) = (connected(&store), connected(&store));
    let held = one.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = two.mutex("a").unwrap();
    let busy = mutex.acquire_within(Duration::from_secs(1)).await.unwrap_err();
    assert!(busy.kind() == &ErrorKind::Timeout && busy.source().is_none(), "{busy}");
    held.release().await.unwrap();
    link.cut();
    let outage = mutex.acquire_within(Duration::from_secs(1)).await.unwrap_err();
    assert!(outage.kind() == &ErrorKind::Timeout && outage.source().is_some(), "{outage}");
}

#[tokio::test(start_paused = true)]
async fn a_writers_release_beside_a_readers_is_no_error() {
    let store = Memory::new(Clock::tokio());
    let (one, link) = connected(&store);
    let (lock, owner) = (one.rwlock("a").unwrap(), Owner::new("o"));
    let writer = lock.write_as(&owner).await.unwrap();
    let reader = lock.read_as(&owner).await.unwrap();
    link.park_next_request(); // the downgrade's connection breaks; it is repeated after 20 ms
    let both = tokio::join!(writer.release(), async {
        tokio::task::yield_now().await;
        reader.release().await
    });
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
}

#[tokio::test(start_paused = true)]
async fn a_writers_second_release_answers_as_its_first_whatever_becomes_of_the_reader() {
    for removed in [true, false] {
        let store = Memory::new(Clock::tokio());
        let (one, link) = connected(&store);
        let (lock, owner) = (one.rwlock("a").unwrap(), Owner::new("o"));
        let writer = lock.write_as(&owner).await.unwrap();
        let reader = lock.read_as(&owner).await.unwrap();
        assert_eq!(writer.release().await.unwrap(), Release::Released);
        match removed {
            true => assert!(lock.force_release(writer.token().sequence()).await.unwrap()),
            false => link.cut(),
        }
        assert_eq!(reader.is_held(), !removed);
        let second = writer.release().now_or_never();
        assert!(matches!(second, Some(Ok(Release::Released))), "removed: {removed}: {second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writers_release_that_meets_a_removal_is_no_error() {
    let store = Memory::new(Clock::tokio());
    let (one, link) = connected(&store);
    let (lock, owner) = (one.rwlock("a").unwrap(), Owner::new("o"));
    let writer = lock.write_as(&owner).await.unwrap();
    let _reader = lock.read_as(&owner).await.unwrap();
    link.delay(Duration::from_millis(20));
    let released =
        tokio::join!(writer.release(), async { store.remove(lock.address(), writer.token().sequence()) });
    assert!(matches!(released, (Ok(Release::Released), true)), "{released:?}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_all_holds_nothing() {
    let store = Memory::new(Clock::tokio());
    let (one, _) = connected(&store);
    let (lock, owner) = (one.reentrant_mutex("a").unwrap(), Owner::new("o"));
    let guard = lock.acquire_as(&owner).await.unwrap();
    lock.force_release(guard.token().sequence()).await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(LostReason::Revoked));
    assert_eq!(lock.holds(&owner), 0);
}

#[tokio::test(start_paused = true)]
async fn a_least_time_of_a_writer_keeps_readers_out_too() {
    let store = Memory::new(Clock::tokio());
    let ((one, _), (two, _)) = (connected(&store), connected(&store));
    let (lock, owner) = (one.rwlock("a").unwrap(), Owner::new("o"));
    let kept = Acquire::new().hold_at_least(Duration::from_secs(5));
    let writer = owner.scope(lock.write_with(kept)).await.unwrap();
    let _reader = lock.read_as(&owner).await.unwrap();
    writer.release().await.unwrap();
    assert!(two.rwlock("a").unwrap().try_read().await.unwrap().is_none(), "given back at once");
}

#[tokio::test(start_paused = true)]
async fn a_try_without_an_owner_names_the_try() {
    let store = Memory::new(Clock::tokio());
    let (one, _) = connected(&store);
    let error = one.reentrant_mutex("a").unwrap().try_acquire().await.unwrap_err();
    assert_eq!((error.kind(), error.operation()), (&ErrorKind::NoOwner, Some("try_acquire")));
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_fixed_end_was_before_a_close_was_lost_by_that() {
    let store = Memory::new(Clock::tokio());
    let (one, _) = connected(&store);
    let short = Acquire::new().max_hold(Duration::from_secs(1));
    let guard = one.mutex("a").unwrap().acquire_with(short).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    one.close().await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(LostReason::MaxHold));
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_comes_after_the_fixed_end_is_lost() {
    let store = Memory::new(Clock::tokio());
    let (one, link) = connected(&store);
    let short = Acquire::new().max_hold(Duration::from_millis(100));
    let writer = one.rwlock("a").unwrap().write_with(short).await.unwrap();
    link.delay(Duration::from_millis(200));
    let reader = writer.downgrade().await;
    assert!(reader.as_ref().is_err() || reader.as_ref().unwrap().is_held(), "{reader:?}");
}
