//! Guards work in each phase as on one coordinator.

use crate::Ended;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::driver::{Part, Stores, two_in};
use crate::Owner;
use crate::decide::moving::MovePhase;
use crate::error::{ErrorKind, LostReason};
use crate::recipes::MultiLock;

const PHASES: [MovePhase; 5] =
    [MovePhase::Old, MovePhase::BothByOld, MovePhase::BothByNew, MovePhase::New, MovePhase::Done];
const LEAST: Duration = Duration::from_secs(2);

#[tokio::test(start_paused = true)]
async fn work_runs_under_a_hold_and_ends_with_it() {
    for phase in PHASES {
        let (_stores, one, other) = two_in(phase).await;
        let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
        assert_eq!(hold.run(async { 7 }).await.unwrap(), 7, "{phase:?}");
        let number = other.coordinator.mutex("a").unwrap().queue().first(1).await.unwrap()[0].sequence;
        let remove = async {
            sleep(LEAST).await;
            other.coordinator.mutex("a").unwrap().force_release(number).await.unwrap()
        };
        let (ran, removed) = tokio::join!(hold.run(std::future::pending::<()>()), remove);
        let error = ran.expect_err("it is lost in between");
        assert!(
            removed && matches!(error.kind(), ErrorKind::Lost(LostReason::Revoked)),
            "{phase:?}: {error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_at_its_longest_and_lasts_for_its_least() {
    for phase in PHASES {
        let (_stores, one, other) = two_in(phase).await;
        let hold = one.coordinator.mutex("longest").unwrap().acquire().max_hold(LEAST).await.unwrap();
        let next = other.coordinator.mutex("longest").unwrap().acquire().await.unwrap();
        assert_eq!(hold.lost().ended(), Some(Ended::Lost(LostReason::MaxHold)), "{phase:?}");
        assert!(next.token() > hold.token());

        let hold = one.coordinator.mutex("least").unwrap().acquire().min_hold(LEAST).await.unwrap();
        let begun = Instant::now();
        hold.release().await.unwrap();
        let next = other.coordinator.mutex("least").unwrap().acquire().await.unwrap();
        assert!(begun.elapsed() >= LEAST, "{phase:?}: {:?}", begun.elapsed());
        drop((next, hold));
    }
}

#[tokio::test(start_paused = true)]
async fn an_owner_enters_again_and_the_last_release_counts() {
    for phase in PHASES {
        let (_stores, one, other) = two_in(phase).await;
        let (owner, another) = (Owner::new("me"), Owner::new("another"));
        let mutex = one.coordinator.mutex("r").unwrap();
        let (outer, inner) =
            (mutex.acquire().by(&owner).await.unwrap(), mutex.acquire().by(&owner).await.unwrap());
        assert_eq!((inner.token(), mutex.hold_count(&owner)), (outer.token(), 2), "{phase:?}");
        outer.release().await.unwrap();
        let elsewhere = other.coordinator.mutex("r").unwrap();
        assert!(elsewhere.try_acquire().by(&another).await.unwrap().is_none(), "{phase:?}");
        inner.release().await.unwrap();
        assert!(elsewhere.try_acquire().by(&another).await.unwrap().is_some(), "{phase:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_locks_are_held_as_one_and_stay_so_through_the_phases() {
    let stores = Stores::new();
    let (one, other) = (stores.participant().await, stores.participant().await);
    let lock = |part: &Part, keys: [&str; 2]| {
        let members = keys.map(|key| part.coordinator.mutex(key).unwrap());
        MultiLock::new(members).expect("good members")
    };
    let through = lock(&one, ["a", "b"]).acquire().await.unwrap();
    for phase in PHASES {
        stores.go(phase).await;
        timeout(60 * LEAST, stores.settled()).await.expect("acknowledged");
        assert!(lock(&other, ["b", "c"]).try_acquire().await.unwrap().is_none(), "{phase:?}");
        let held = lock(&one, ["c", "d"]).acquire().await.unwrap();
        assert!(other.coordinator.mutex("d").unwrap().try_acquire().await.unwrap().is_none(), "{phase:?}");
        assert!(through.is_held() && held.is_held(), "{phase:?}");
        let waits = lock(&other, ["d", "e"]);
        let (next, ()) = tokio::join!(waits.acquire(), async {
            sleep(LEAST).await;
            held.release().await.unwrap();
        });
        assert!(next.unwrap().is_held(), "{phase:?}");
    }
    through.release().await.unwrap();
    assert!(lock(&other, ["a", "b"]).try_acquire().await.unwrap().is_some());
}

/// A reply to the release is lost, and the next try finds no node.
#[tokio::test(start_paused = true)]
async fn a_release_of_which_nothing_is_known_holds_no_step_up() {
    for (phase, next) in PHASES.into_iter().zip(PHASES.into_iter().skip(1)) {
        for of_new in [false, true] {
            let (stores, one, _other) = two_in(phase).await;
            let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
            let link = if of_new { &one.new } else { &one.old };
            link.drop_next_reply();
            match hold.release().await {
                Ok(()) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutcomeUnknown, "{phase:?}: {error}"),
            }
            let begun = Instant::now();
            let stepped = async {
                stores.go(next).await;
                stores.settled().await;
            };
            timeout(60 * LEAST, stepped).await.unwrap_or_else(|_| panic!("no step from {phase:?}, {of_new}"));
            assert!(begun.elapsed() < LEAST, "{phase:?}: {:?}", begun.elapsed());
        }
    }
}

/// A margin of this lease is longer than a request may take.
#[tokio::test(start_paused = true)]
async fn a_close_waits_for_a_guard_once_and_for_nothing_else() {
    let (ttl, request_timeout) = (Duration::from_secs(60), Duration::from_secs(1));
    for phase in PHASES {
        for guarded in [false, true] {
            let stores = Stores::with(|config| (config.ttl, config.request_timeout) = (ttl, request_timeout));
            let [one, other] = stores.two_in(phase).await;
            let margin = one.coordinator.lease().margin();
            assert!(margin > 5 * request_timeout, "{margin:?}");
            let hold = one.coordinator.mutex("a").unwrap().acquire().await.unwrap();
            let guard = match guarded {
                true => Some(hold),
                false => {
                    hold.release().await.unwrap();
                    None
                }
            };
            let begun = Instant::now();
            one.coordinator.close().await.unwrap_or_else(|error| panic!("{phase:?}, {guarded}: {error}"));
            let least = if guarded { margin } else { Duration::ZERO };
            let took = begun.elapsed();
            assert!((least..least + request_timeout).contains(&took), "{phase:?}, {guarded}: {took:?}");
            let next = other.coordinator.mutex("a").unwrap();
            let next = timeout(request_timeout, next.acquire()).await.expect("it is free").unwrap();
            drop((guard, next));
            // It is not a member now, so no step waits for it.
            timeout(request_timeout, stores.settled()).await.expect("acknowledged by the remaining members");
        }
    }
}
