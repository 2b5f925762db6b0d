use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use latchwork_core::memory::Memory;
use latchwork_core::{Clock, Coordinator, Ended, ErrorKind, HoldState, LostReason, Owner};

use crate::common::{Clients, clients, connected, connected_to, fails};

#[tokio::test(start_paused = true)]
async fn run_ends_when_one_of_an_owners_guards_is_released_by_another_task() {
    let Clients { client, other, .. } = clients();
    let (lock, owner) = (client.rwlock("a").unwrap(), Owner::new("o"));
    let writer = Arc::new(lock.write().by(&owner).await.unwrap());
    let _reader = lock.read().by(&owner).await.unwrap();
    let same = Arc::clone(&writer);
    let work = tokio::spawn(async move { same.run(std::future::pending::<()>()).await });
    tokio::task::yield_now().await;
    writer.release().await.unwrap();
    assert!(other.rwlock("a").unwrap().try_read().await.unwrap().is_some(), "others read now");
    assert!(!writer.is_held());
    let ended = tokio::time::timeout(Duration::from_secs(1), work).await;
    assert!(ended.is_ok(), "the readers of a released writer continue with other readers");
}

#[tokio::test(start_paused = true)]
async fn lost_ends_with_the_release_of_one_of_an_owners_guards() {
    let (client, _) = connected();
    let (lock, owner) = (client.mutex("a").unwrap(), Owner::new("o"));
    let outer = lock.acquire().by(&owner).await.unwrap();
    let inner = lock.acquire().by(&owner).await.unwrap();
    let (loss, mut states) = (inner.lost(), inner.states());
    states.next().await;
    inner.release().await.unwrap();
    let ended = states.next().now_or_never();
    assert_eq!((outer.state(), inner.state()), (HoldState::Held, HoldState::Ended(Ended::Released)));
    lock.force_release(outer.token().sequence()).await.unwrap();
    assert_eq!(
        (ended, loss.ended()),
        (Some(Some(HoldState::Ended(Ended::Released))), Some(Ended::Released)),
        "the release ends the guard, even if the node is lost later"
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_release_of_an_owners_last_hold_reports_no_success_before_the_server() {
    let Clients { store, client, link, .. } = clients();
    let (lock, owner) = (client.mutex("a").unwrap(), Owner::new("o"));
    let guard = lock.acquire().by(&owner).await.unwrap();
    link.cut();
    assert!(tokio::time::timeout(Duration::from_millis(100), guard.release()).await.is_err());
    let second = guard.release().await;
    assert!(second.is_err(), "{second:?} although the server still has the node: {:?}", store.contents());
}

#[tokio::test(start_paused = true)]
async fn two_closes_both_wait_for_a_least_time() {
    let Clients { client, other, .. } = clients();
    let guard = client.mutex("a").unwrap().acquire().min_hold(Duration::from_secs(5)).await.unwrap();
    guard.release().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(100), client.close()).await.is_err());
    let again = tokio::time::timeout(Duration::from_millis(100), client.close()).await;
    let taken = other.mutex("a").unwrap().try_acquire().await.unwrap();
    assert!(again.is_err() && taken.is_none(), "{again:?}: left after 0.2 s of 5: {taken:?}");
}

/// At any instant one of the two tasks has a kept hold, because both acquire again.
#[tokio::test(start_paused = true)]
async fn a_close_waits_for_earlier_least_times_and_not_for_later_ones() {
    let (client, _) = connected();
    for (key, after) in [("a", 0), ("b", 5)] {
        let mutex = client.mutex(key).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(after)).await;
            while let Ok(guard) = mutex.acquire().min_hold(Duration::from_secs(10)).await {
                guard.release().await.unwrap();
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(6)).await;
    let closed = tokio::time::timeout(Duration::from_secs(12), client.close()).await;
    assert!(matches!(closed, Ok(Ok(()))), "{closed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_try_of_an_owner_does_not_wait_for_its_other_task() {
    let Clients { client, other, .. } = clients();
    let _held = other.mutex("a").unwrap().acquire().await.unwrap();
    let (lock, owner) = (client.mutex("a").unwrap(), Owner::new("o"));
    let (first, same) = (lock.clone(), owner.clone());
    let _waiting = tokio::spawn(async move { first.acquire().by(&same).await });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let from = tokio::time::Instant::now();
    let tried = lock.try_acquire().by(&owner).await;
    assert!(matches!(tried, Ok(None)), "{tried:?} after {:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_try_answers_within_the_request_timeout() {
    let (client, link) = connected();
    let (lock, owner) = (client.mutex("a").unwrap(), Owner::new("o"));
    link.hold();
    let (first, same) = (lock.clone(), owner.clone());
    let _waiting =
        tokio::spawn(async move { first.acquire().by(&same).within(Duration::from_millis(1900)).await });
    tokio::task::yield_now().await;
    let from = tokio::time::Instant::now();
    let tried = lock.try_acquire().by(&owner).await;
    assert!(from.elapsed() < Duration::from_millis(2100), "{tried:?} after {:?}", from.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_remaining_time_of_a_hold_is_readable_until_it_is_lost_or_released() {
    let (client, link) = connected();
    let (open, bounded) = (client.mutex("a").unwrap(), client.mutex("b").unwrap());
    let hold = open.acquire().await.unwrap();
    let (second, lease) = (Duration::from_secs(1), client.lease());
    let full = lease.ttl() - lease.margin();
    let fixed = bounded.acquire().max_hold(3 * second).await.unwrap();
    assert_eq!((hold.remaining(), fixed.remaining()), (full, 3 * second));
    link.cut();
    tokio::time::advance(second).await;
    assert_eq!((hold.remaining(), fixed.remaining()), (full - second, 2 * second));
    tokio::time::advance(2 * second).await;
    assert_eq!((hold.remaining(), fixed.remaining()), (full - 3 * second, Duration::ZERO));
    tokio::time::advance(full).await;
    assert_eq!((hold.remaining(), hold.is_held()), (Duration::ZERO, false));
    link.heal();
    let hold = open.acquire().await.unwrap();
    assert!(hold.remaining() > 5 * second);
    hold.release().await.unwrap();
    assert_eq!((hold.remaining(), hold.state()), (Duration::ZERO, HoldState::Ended(Ended::Released)));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_its_owners_acquisition_distinguishes_an_outage_from_a_busy_lock() {
    let Clients { client, link, other, .. } = clients();
    let _held = other.mutex("a").unwrap().acquire().await.unwrap();
    let (lock, owner) = (client.mutex("a").unwrap(), Owner::new("o"));
    let (first, same) = (lock.clone(), owner.clone());
    let _waiting = tokio::spawn(async move { first.acquire().by(&same).await });
    tokio::task::yield_now().await;
    let within = |length| lock.acquire().by(&owner).within(length);
    let busy = within(Duration::from_secs(1)).await.unwrap_err();
    assert!(busy.kind() == ErrorKind::Timeout && busy.cause().is_none(), "{busy}");
    link.cut();
    let outage = within(client.lease().ttl() * 3 / 4).await.unwrap_err();
    assert!(outage.kind() == ErrorKind::Unavailable && outage.cause().is_some(), "{outage}");
    fails(lock.acquire().by(&owner).fail_fast().await, ErrorKind::Unavailable, "cut off");
}

#[tokio::test(start_paused = true)]
async fn concurrent_release_of_writer_and_reader_succeeds() {
    let (client, link) = connected();
    let (lock, owner) = (client.rwlock("a").unwrap(), Owner::new("o"));
    let writer = lock.write().by(&owner).await.unwrap();
    let reader = lock.read().by(&owner).await.unwrap();
    link.park_next_request(); // the downgrade's connection breaks; it is repeated after 20 ms
    let both = tokio::join!(writer.release(), async {
        tokio::task::yield_now().await;
        reader.release().await
    });
    assert!(both.0.is_ok() && both.1.is_ok(), "{both:?}");
}

#[tokio::test(start_paused = true)]
async fn second_release_of_a_writer_repeats_its_first_answer() {
    for removed in [true, false] {
        let (client, link) = connected();
        let (lock, owner) = (client.rwlock("a").unwrap(), Owner::new("o"));
        let writer = lock.write().by(&owner).await.unwrap();
        let reader = lock.read().by(&owner).await.unwrap();
        writer.release().await.unwrap();
        match removed {
            true => assert!(lock.force_release(writer.token().sequence()).await.unwrap()),
            false => link.cut(),
        }
        assert_eq!(reader.is_held(), !removed);
        let second = writer.release().now_or_never();
        assert!(matches!(second, Some(Ok(()))), "removed: {removed}: {second:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writers_release_that_meets_a_removal_reports_it() {
    let Clients { store, client, link, .. } = clients();
    let (lock, owner) = (client.rwlock("a").unwrap(), Owner::new("o"));
    let writer = lock.write().by(&owner).await.unwrap();
    let _reader = lock.read().by(&owner).await.unwrap();
    link.delay(Duration::from_millis(20));
    let released =
        tokio::join!(writer.release(), async { store.remove(lock.address(), writer.token().sequence()) });
    let (lost, removed) = (released.0.unwrap_err(), released.1);
    assert!(removed && lost.lost_reason() == Some(LostReason::Revoked), "{lost}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_lost_all_holds_nothing() {
    let (client, _) = connected();
    let (lock, owner) = (client.mutex("a").unwrap(), Owner::new("o"));
    let guard = lock.acquire().by(&owner).await.unwrap();
    lock.force_release(guard.token().sequence()).await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(LostReason::Revoked));
    assert_eq!(lock.hold_count(&owner), 0);
}

#[tokio::test(start_paused = true)]
async fn a_least_time_of_a_writer_keeps_readers_out_too() {
    let Clients { client, other, .. } = clients();
    let (lock, owner) = (client.rwlock("a").unwrap(), Owner::new("o"));
    let writer = lock.write().by(&owner).min_hold(Duration::from_secs(5)).await.unwrap();
    let _reader = lock.read().by(&owner).await.unwrap();
    writer.release().await.unwrap();
    assert!(
        other.rwlock("a").unwrap().try_read().await.unwrap().is_none(),
        "the least time keeps readers out"
    );
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_fixed_end_was_before_a_close_was_lost_by_its_fixed_end() {
    let (client, _) = connected();
    let guard = client.mutex("a").unwrap().acquire().max_hold(Duration::from_secs(1)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(2)).await;
    client.close().await.unwrap();
    assert_eq!(guard.check().unwrap_err().lost_reason(), Some(LostReason::MaxHold));
}

/// LEASE-MARGIN-BEFORE-LEAVE: work under a dropped hold may continue.
#[tokio::test(start_paused = true)]
async fn a_close_waits_for_a_hold_that_was_dropped_after_its_fixed_end() {
    for (released, how) in [(false, "dropped"), (true, "released")] {
        let Clients { client, other, .. } = clients();
        let second = Duration::from_secs(1);
        let guard = client.mutex("a").unwrap().acquire().max_hold(second).await.unwrap();
        let end = tokio::time::Instant::now() + second;
        let next = tokio::spawn(async move {
            let _next = other.mutex("a").unwrap().acquire().await.unwrap();
            tokio::time::Instant::now()
        });
        guard.lost().await;
        match released {
            true => assert_eq!(guard.release().await.unwrap_err().lost_reason(), Some(LostReason::MaxHold)),
            false => drop(guard),
        }
        let margin = client.lease().margin();
        client.close().await.unwrap();
        assert_eq!(next.await.unwrap() >= end + margin, !released, "{how}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_does_not_wait_for_a_hold_that_left_after_its_fixed_end() {
    let (client, _) = connected();
    let second = Duration::from_secs(1);
    let guard = client.mutex("a").unwrap().acquire().max_hold(second).await.unwrap();
    let lost = guard.lost();
    lost.clone().await;
    drop(guard);
    tokio::time::sleep(client.lease().margin() + second).await;
    let began = tokio::time::Instant::now();
    client.close().await.unwrap();
    assert!(began.elapsed() < client.lease().margin(), "{:?}", began.elapsed());
    assert!(lost.ended().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_that_comes_after_the_fixed_end_is_lost() {
    let (client, link) = connected();
    let writer = client.rwlock("a").unwrap().write().max_hold(Duration::from_millis(100)).await.unwrap();
    link.delay(Duration::from_millis(200));
    let reader = writer.downgrade().await;
    assert!(reader.as_ref().is_err() || reader.as_ref().unwrap().is_held(), "{reader:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watcher_is_notified_of_the_release_and_keeps_nothing_alive() {
    for released in [true, false] {
        let (coordinator, link) = connected();
        let backend = Arc::downgrade(coordinator.backend());
        let guard = coordinator.mutex("a").unwrap().acquire().await.unwrap();
        let (idle, mut polled, task) = (guard.lost(), guard.lost(), tokio::spawn(guard.lost()));
        assert!((&mut polled).now_or_never().is_none() && idle.ended().is_none());
        tokio::task::yield_now().await;
        if released {
            guard.release().await.unwrap();
        }
        drop(guard);
        assert_eq!(task.await.unwrap(), Ended::Released);
        assert_eq!(idle.ended(), Some(Ended::Released));
        assert_eq!((&mut polled).await, Ended::Released);
        coordinator.close().await.unwrap();
        drop((coordinator, link));
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(backend.strong_count(), 0, "released: {released}: a handle keeps the client alive");
        assert_eq!((idle.key(), polled.ended()), ("a", Some(Ended::Released)));
    }
}

#[tokio::test(start_paused = true)]
async fn work_under_a_hold_need_not_be_send_and_the_errors_are_the_librarys() {
    async fn with_lock<T>(
        coordinator: &Coordinator,
        key: &str,
        work: impl AsyncFnOnce(latchwork_core::Token) -> T,
    ) -> latchwork_core::Result<T> {
        let hold = coordinator.mutex(key)?.acquire().await?;
        let done = hold.run(work(hold.token())).await?;
        hold.release().await?;
        Ok(done)
    }
    let (coordinator, link) = connected();
    let (mutex, local) = (coordinator.mutex("a").unwrap(), tokio::task::LocalSet::new());
    let (lock, other) = (mutex.clone(), coordinator.clone());
    local
        .run_until(async move {
            let work = async move {
                let counted = std::rc::Rc::new(std::cell::Cell::new(1));
                let own = with_lock(&other, "b", async |_| {
                    tokio::task::yield_now().await;
                    counted.get()
                })
                .await?;
                let given = lock
                    .acquire()
                    .with(async |_| {
                        tokio::task::yield_now().await;
                        counted.get()
                    })
                    .await?;
                latchwork_core::Result::Ok(own + given)
            };
            assert_eq!(tokio::task::spawn_local(work).await.unwrap().unwrap(), 2);
        })
        .await;
    let lock = mutex.clone();
    let sent = tokio::spawn(async move { lock.acquire().with(async |hold| hold.token()).await });
    assert!(sent.await.unwrap().is_ok());
    // The error has the key, even if only the release notices the loss.
    let lost = mutex
        .acquire()
        .with(async |_| {
            link.lose_lease();
            std::future::pending::<()>().await
        })
        .await
        .unwrap_err();
    assert_eq!((lost.lost_reason(), lost.key()), (Some(LostReason::Revoked), Some("a")));
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_or_panics_closes_its_coordinator() {
    let store = Memory::new(Clock::tokio());
    let held =
        |coordinator: Coordinator| async move { coordinator.mutex("a").unwrap().acquire().await.unwrap() };
    for panics in [false, true] {
        let (coordinator, _link) = connected_to(&store);
        let other = coordinator.clone();
        let failing = tokio::spawn(async move {
            other
                .close_after(async |coordinator| {
                    let _guard = held(coordinator).await;
                    assert!(!panics, "planted");
                    Err::<(), _>(latchwork_core::Error::new(ErrorKind::Conflict, "planted"))
                })
                .await
        });
        match failing.await {
            Ok(answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Conflict),
            Err(died) => assert!(died.is_panic() && panics),
        }
        assert_eq!(coordinator.lease().lost(), Some(LostReason::Closed));
        assert!(store.contents().is_empty(), "panics: {panics}");
    }
    let (coordinator, _link) = connected_to(&store);
    let done = coordinator.clone().close_after(async |_| Ok::<_, latchwork_core::Error>(7)).await;
    assert_eq!((done.unwrap(), coordinator.lease().lost()), (7, Some(LostReason::Closed)));
}
