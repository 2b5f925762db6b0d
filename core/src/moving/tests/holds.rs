use crate::Ended;
use crate::contracts::Limit;
use std::time::Duration;

use super::driver::Stores;
use crate::decide::moving::{MovePhase, Way};
use crate::error::{ErrorKind, LostReason};
use crate::recipes::QuorumLock;
use crate::{Key, Owner, Token};

const SOON: Duration = Duration::from_secs(1);

async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(60 * SOON, what).await.expect("it comes")
}

#[tokio::test(start_paused = true)]
async fn a_hold_from_before_the_move_is_one_still_when_it_is_done() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = other.coordinator.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    for phase in [MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done] {
        let stage = stores.go(phase).await;
        soon(stores.settled()).await;
        assert!(hold.is_held() && !waiting.is_finished(), "{phase:?}");
        assert_eq!(stage.epoch, u16::from(phase >= MovePhase::BothByNew));
    }
    assert_eq!(hold.token().epoch(), 0);
    hold.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert!(next.token() > hold.token() && next.token().epoch() == 1, "{:?}", next.token());
    // The old side is no longer needed.
    one.old.cut();
    other.old.cut();
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(next.is_held());
    next.release().await.unwrap();
    let after = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    assert!(after.token() > next.token());
    drop(after);
    one.coordinator.close().await.expect("nothing rests on the old side");
}

#[tokio::test(start_paused = true)]
async fn in_both_phases_a_hold_ends_with_either_side_and_says_which() {
    for phase in [MovePhase::BothByOld, MovePhase::BothByNew] {
        for cut_old in [true, false] {
            let stores = Stores::new();
            let (one, other) = (stores.participant().await, stores.participant().await);
            let before = one.coordinator.mutex("before").unwrap().acquire().await.unwrap();
            stores.go(phase).await;
            soon(stores.settled()).await;
            let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
            let side = if cut_old { &one.old } else { &one.new };
            side.cut();
            for hold in [&hold, &before] {
                assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Expired));
                let place = hold.lost().lost_on().expect("it is known where");
                assert!(place.contains(if cut_old { "old side" } else { "new side" }), "{place}");
                let error = hold.check().unwrap_err();
                assert!(
                    format!("{error:#}").contains(&place) || error.to_string().contains(&place),
                    "{error}"
                );
            }
            // Both guards still exist, but no client waits for them.
            let next = other
                .coordinator
                .mutex("a")
                .unwrap()
                .acquire()
                .within(Duration::from_secs(30))
                .await
                .unwrap();
            assert!(next.token() > hold.token());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_on_the_new_side_ends_with_the_membership_until_the_move_is_done() {
    let stores = Stores::new();
    let one = stores.participant().await;
    stores.go(MovePhase::New).await;
    soon(stores.settled()).await;
    let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    assert_eq!(hold.token().epoch(), 1);
    one.old.cut();
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Expired));
    assert!(hold.lost().lost_on().unwrap().contains("member"), "{:?}", hold.lost().lost_on());
    let error = one.coordinator.mutex("a").unwrap().acquire().within(SOON).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    one.old.heal();
    let again = one.coordinator.mutex("a").unwrap().acquire().within(Duration::from_secs(30)).await.unwrap();
    assert!(again.is_held() && again.token() > hold.token());
}

#[tokio::test(start_paused = true)]
async fn a_step_back_waits_for_a_hold_on_the_new_side_alone() {
    let stores = Stores::new();
    let one = stores.participant().await;
    stores.go(MovePhase::New).await;
    soon(stores.settled()).await;
    let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    stores.go(MovePhase::BothByNew).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(stores.try_step(Way::Back).await, None, "the hold has no node on the old side");
    hold.release().await.unwrap();
    let stage = soon(stores.go(MovePhase::Old)).await;
    assert_eq!(stage.epoch, 2);
    soon(stores.settled()).await;
    let next = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    assert!(next.token() > hold.token() && next.token().epoch() == 2);
}

#[tokio::test(start_paused = true)]
async fn waiter_leaves_the_new_side_when_the_old_side_is_needed() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    stores.go(MovePhase::New).await;
    soon(stores.settled()).await;
    let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = other.coordinator.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    tokio::time::sleep(SOON).await;
    stores.go(MovePhase::BothByNew).await;
    tokio::time::sleep(SOON).await;
    assert!(!waiting.is_finished());
    hold.release().await.unwrap();
    let next = tokio::time::timeout(SOON, waiting).await.expect("no deadlock").unwrap().unwrap();
    assert!(next.token() > hold.token());
}

/// It reads the stage while it holds both nodes.
#[tokio::test(start_paused = true)]
async fn client_without_the_switch_event_gives_new_side_tokens() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    stores.go(MovePhase::BothByOld).await;
    soon(stores.settled()).await;
    one.old.drop_next_news(stores.stage());
    stores.go(MovePhase::BothByNew).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let before = other.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    before.release().await.unwrap();
    let after = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    assert_eq!((before.token().epoch(), after.token().epoch()), (1, 1));
    assert!(after.token() > before.token());
}

/// Both a participant of the first move and a later client take tokens.
#[tokio::test(start_paused = true)]
async fn tokens_rise_after_an_aborted_move() {
    let stores = Stores::new();
    let one = stores.participant().await;
    soon(stores.go(MovePhase::New)).await;
    soon(stores.settled()).await;
    soon(stores.go(MovePhase::Old)).await;
    soon(stores.settled()).await;
    let mutex = one.coordinator.mutex("a").unwrap();
    let before = mutex.acquire().await.unwrap();
    before.release().await.unwrap();
    stores.give_up().await;
    tokio::time::sleep(SOON).await;
    let other = stores.participant().await;
    let mut last = before.token();
    for part in [&one, &other, &one] {
        let hold = part.coordinator.mutex("a").unwrap().acquire().await.unwrap();
        assert!(hold.token() > last, "{:?} after {last:?}", hold.token());
        last = hold.token();
        hold.release().await.unwrap();
    }
    assert_eq!(last.epoch(), 2);
}

/// It was cut off from the old side earlier, and may know a phase that needs only the new side.
#[tokio::test(start_paused = true)]
async fn client_away_during_an_abort_uses_the_old_side_again() {
    for known in [MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New] {
        let stores = Stores::new();
        let [one, other] = stores.two_in(known).await;
        one.old.cut();
        soon(one.coordinator.lease().until_lost()).await;
        // Its membership also ends on the server.
        soon(stores.go(MovePhase::Old)).await;
        soon(stores.settled()).await;
        stores.give_up().await;
        one.old.heal();
        tokio::time::sleep(2 * one.coordinator.lease().ttl()).await;
        let held = other.coordinator.mutex("a").unwrap().acquire().await.unwrap();
        let away = one.coordinator.mutex("a").unwrap();
        assert!(away.try_acquire().await.unwrap().is_none(), "{known:?}: two hold");
        let (last, epoch) = (held.token(), held.token().epoch());
        held.release().await.unwrap();
        let next = soon(away.acquire()).await.unwrap();
        assert!(next.token() > last && next.token().epoch() == epoch, "{known:?}: {:?}", next.token());
    }
}

/// It waits on the old side until the move is nearly done.
#[tokio::test(start_paused = true)]
async fn sides_of_a_hold_are_decided_when_it_completes() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
    let mutex = other.coordinator.mutex("a").unwrap();
    let waiting = tokio::spawn(async move { mutex.acquire().await });
    tokio::time::sleep(SOON).await;
    soon(stores.go(MovePhase::New)).await;
    soon(stores.settled()).await;
    hold.release().await.unwrap();
    let next = soon(waiting).await.unwrap().unwrap();
    assert_eq!(next.token().epoch(), 1);
    assert!(
        one.coordinator.mutex("a").unwrap().try_acquire().await.unwrap().is_none(),
        "it is on the new side"
    );
    other.new.cut();
    assert_eq!(soon(next.lost()).await, Ended::Lost(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn owners_writers_and_permits_move_with_their_holds() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    let owner = Owner::new("me");
    let reentrant = one.coordinator.mutex("r").unwrap();
    let outer = reentrant.acquire().by(&owner).await.unwrap();
    let writer = one.coordinator.rwlock("w").unwrap().write().await.unwrap();
    let permits = one.coordinator.semaphore("s", 3).unwrap().acquire(2).await.unwrap();
    stores.go(MovePhase::BothByOld).await;
    let inner = reentrant.acquire().by(&owner).await.unwrap();
    assert_eq!((inner.token(), reentrant.hold_count(&owner)), (outer.token(), 2));
    soon(stores.settled()).await;
    let reader = writer.downgrade().await.unwrap();
    stores.go(MovePhase::New).await;
    soon(stores.settled()).await;
    outer.release().await.unwrap();
    assert!(inner.is_held() && reader.is_held() && permits.is_held());
    let (rwlock, semaphore) =
        (other.coordinator.rwlock("w").unwrap(), other.coordinator.semaphore("s", Limit::Stored).unwrap());
    assert!(rwlock.try_read().await.unwrap().is_some(), "a reader beside a reader");
    assert!(rwlock.try_write().await.unwrap().is_none());
    assert!(semaphore.try_acquire(2).await.unwrap().is_none());
    assert!(semaphore.try_acquire(1).await.unwrap().is_some());
    assert_eq!(semaphore.stored_limit().await.unwrap(), Some(3));
    let taken = other.coordinator.mutex("r").unwrap().try_acquire().by(&Owner::new("another")).await.unwrap();
    assert!(taken.is_none());
    inner.release().await.unwrap();
    let queue = other.coordinator.rwlock("w").unwrap().queue().first(10).await.unwrap();
    assert_eq!(queue.len(), 1, "{queue:?}");
    assert_eq!(Token::coded(queue[0].sequence).epoch(), 1);
    assert!(other.coordinator.rwlock("w").unwrap().force_release(queue[0].sequence).await.unwrap());
    assert_eq!(soon(reader.lost()).await, Ended::Lost(LostReason::Revoked));
}

/// Its node on the new side is still joining as a writer.
#[tokio::test(start_paused = true)]
async fn hold_change_during_its_join_reaches_the_new_side() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    let writer = one.coordinator.rwlock("w").unwrap().write().await.unwrap();
    let leader = one.coordinator.election("e").unwrap().campaign(b"before").await.unwrap();
    stores.begins().await.expect("the first");
    soon(stores.settled()).await;
    one.new.hold();
    stores.go(MovePhase::BothByOld).await;
    soon(one.new.held()).await;
    let reader = writer.downgrade().await.unwrap();
    leader.proclaim(b"after").await.unwrap();
    one.new.resume();
    soon(stores.settled()).await;
    soon(stores.go(MovePhase::New)).await;
    soon(stores.settled()).await;
    let beside = other.coordinator.rwlock("w").unwrap().try_read().await.unwrap();
    assert!(reader.is_held() && beside.is_some(), "a reader beside a reader");
    let leading = other.coordinator.election("e").unwrap().leader().await.unwrap().unwrap();
    assert_eq!(&*leading.data, b"after");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_acquisition_leaves_nothing_on_either_side() {
    for phase in [MovePhase::Old, MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done]
    {
        let stores = Stores::new();
        let (one, other) = (stores.participant().await, stores.participant().await);
        stores.go(phase).await;
        soon(stores.settled()).await;
        let mutex = one.coordinator.mutex("a").unwrap();
        let hold = mutex.acquire().await.unwrap();
        let waits = other.coordinator.mutex("a").unwrap().acquire().within(SOON).await.unwrap_err();
        assert_eq!(waits.kind(), ErrorKind::Timeout, "{waits}");
        for _ in 0..20 {
            let waits = other.coordinator.mutex("a").unwrap();
            let acquiring = waits.acquire();
            tokio::select! {
                biased;
                () = tokio::task::yield_now() => {}
                _ = acquiring => unreachable!("it is held"),
            }
        }
        assert!(other.coordinator.mutex("a").unwrap().try_acquire().await.unwrap().is_none());
        drop(hold);
        let again = mutex.try_acquire().await.unwrap().expect("the dropped node is gone");
        drop(again);
        for part in [&one, &other] {
            part.coordinator.close().await.unwrap();
        }
        for store in [&stores.old, &stores.new] {
            let left = store.contents();
            let is_left = |what: &&String| what.contains("mutex") || what.contains("clients");
            assert_eq!(left.iter().find(is_left), None, "{phase:?}: {left:?}");
        }
    }
}

/// The operator waits for no acknowledgements, so the hold has no node yet on the values' side.
#[tokio::test(start_paused = true)]
async fn a_write_under_a_hold_waits_for_its_node_on_the_side_of_the_values() {
    for heals in [true, false] {
        let stores = Stores::new();
        let one = stores.participant_with(|config| config.request_timeout = 8 * SOON).await;
        let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
        let value = one.coordinator.shared_value("v").unwrap();
        value.write_while(&hold, "old").await.unwrap();
        stores.begins().await.expect("the first");
        soon(stores.settled()).await;
        one.new.cut();
        stores.force(MovePhase::BothByOld, 0).await;
        stores.force(MovePhase::BothByNew, 1).await;
        tokio::time::sleep(SOON).await;
        let heal = async {
            tokio::time::sleep(SOON).await;
            if heals {
                one.new.heal();
            }
        };
        let (written, ()) = tokio::join!(soon(value.write_while(&hold, "new")), heal);
        match heals {
            true => {
                let version = written.unwrap();
                assert_eq!(value.read().await.unwrap().unwrap().version, version);
                assert!(hold.is_held());
            }
            false => assert_eq!(written.unwrap_err().kind(), ErrorKind::Unavailable),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_back_frees_who_waits_for_a_new_side_that_does_not_answer() {
    let stores = Stores::new();
    let one = stores.participant().await;
    stores.go(MovePhase::BothByOld).await;
    soon(stores.settled()).await;
    one.new.cut();
    let mutex = one.coordinator.mutex("a").unwrap();
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    tokio::time::sleep(SOON).await;
    assert!(!acquiring.is_finished());
    assert!(stores.try_step(Way::Back).await.is_some());
    let hold = tokio::time::timeout(SOON, acquiring).await.expect("at once").unwrap().unwrap();
    assert!(hold.is_held());
}

#[tokio::test(start_paused = true)]
async fn what_does_not_move_is_refused_by_name() {
    let stores = Stores::new();
    let named =
        |name: &'static str| stores.participant_with(move |config| config.name = Some(name.to_owned()));
    let (one, other) = (named("one").await, named("other").await);
    let (one, other) = (&one.coordinator, &other.coordinator);
    let stays = [
        one.group("a").map(drop).expect_err("members hold nothing"),
        one.barrier("a", 2).map(drop).expect_err("members hold nothing"),
        one.double_barrier("a", 2).map(drop).expect_err("members hold nothing"),
    ];
    for error in stays {
        assert!(
            matches!(error.kind(), ErrorKind::Unsupported { .. })
                && error.to_string().contains("do not move"),
            "{error}"
        );
    }
    let exact = one.mutex(Key::exact("a")).expect_err("others use it");
    assert!(exact.argument() == Some("key") && exact.to_string().contains("does not move"), "{exact}");
    let members = [one.clone(), other.clone()];
    let quorum = QuorumLock::new("a", members, Duration::from_secs(10));
    let quorum = quorum.expect_err("it has a marker of each server");
    assert!(quorum.to_string().contains("cannot take part in a move"), "{quorum}");
    QuorumLock::new("a", [one.clone()], Duration::from_secs(10)).expect("one alone is that mutex");
}
