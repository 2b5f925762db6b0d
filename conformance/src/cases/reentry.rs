//! REENTRY-: one owner, several holds.

use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::{Ended, ErrorKind, Kind, LostReason, Owner};

use crate::actions::{acquire, listing, mutex, reentrant, release, release_all, try_acquire};
use crate::bounds::CLEAN_UP;
use crate::case::cases;
use crate::errors::{fails, is_lost, refuses};
use crate::waits::{soon, until, within};

cases! {
    "REENTRY-OWNER" =>
    /// only the owner that a call names re-enters; another owner waits, in the same process too, and so does a call
    /// without an owner
    async fn reentry_owner_is_explicit(context) {
        let client = context.client().await;
        let lock = reentrant(&client, "a");
        let (one, other) = (Owner::new("one"), Owner::new("other"));
        let held = soon("acquire", lock.acquire().by(&one)).await.expect("acquired");
        assert_eq!((lock.hold_count(&one), lock.hold_count(&other)), (1, 0));
        assert_eq!(listing(&mutex(&client, "a")).await[0].label, "one", "the label is visible on the server");
        assert!(soon("try", lock.try_acquire().by(&other)).await.expect("answered").is_none(), "another owner");
        assert!(soon("try", lock.try_acquire()).await.expect("answered").is_none(), "no owner");
        held.release().await.expect("released");
        release(soon("acquire", lock.acquire().by(&other)).await.expect("acquired")).await;
    }

    "REENTRY-OWNER" =>
    /// bad options are refused at once, by name, also for an owner that holds and would only re-enter
    async fn reentry_owner_gets_bad_options_refused(context) {
        let client = context.client().await;
        let (held, owner) = (reentrant(&client, "held"), Owner::new("one"));
        let outer = soon("acquire", held.acquire().by(&owner)).await.expect("acquired");
        for lock in [&held, &reentrant(&client, "free")] {
            let request = || lock.acquire().by(&owner);
            for (request, argument) in [
                (request().within(Duration::ZERO), "within"),
                (request().max_hold(Duration::ZERO), "max_hold"),
                (request().label("l".repeat(4097)), "label"),
            ] {
                assert_eq!(refuses(request.await, argument).key(), Some(lock.key()));
            }
        }
        assert_eq!(held.hold_count(&owner), 1);
        outer.release().await.expect("released");
    }

    "REENTRY-COUNT" =>
    /// a re-entry needs no server and keeps the token; the last release frees the node
    async fn reentry_count_is_kept_locally(context) {
        let [client, other] = context.clients().await;
        let (lock, owner) = (reentrant(&client, "a"), Owner::new("one"));
        let outer = soon("acquire", lock.acquire().by(&owner)).await.expect("acquired");
        client.link.cut();
        let inner = lock.acquire().by(&owner).await.expect("a re-entry must send no request");
        let innermost = lock.try_acquire().by(&owner).await.expect("a re-entry must send no request").expect("held");
        assert_eq!((inner.token(), innermost.token()), (outer.token(), outer.token()));
        assert_eq!(lock.hold_count(&owner), 3);
        inner.release().await.expect("a re-entry must send no request");
        fails(inner.check(), ErrorKind::NotHeld, "released");
        client.link.heal();
        drop(inner);
        assert_eq!((lock.hold_count(&owner), listing(&mutex(&other, "a")).await.len()), (2, 1));
        drop(innermost);
        assert!(outer.is_held());
        outer.release().await.expect("released");
        assert_eq!((lock.hold_count(&owner), listing(&mutex(&other, "a")).await.len()), (0, 0));
        let next = soon("acquire", lock.acquire().by(&owner)).await.expect("acquired");
        assert!(next.token() > outer.token());
        drop(next);
        until("the drop of the last hold frees the lock", || async { listing(&mutex(&other, "a")).await.is_empty() }).await;
    }

    "REENTRY-LOSS" =>
    /// all holds of a lost node are lost together; a later acquisition is new, and the old guards do not affect it
    async fn reentry_loss_is_common_and_final(context) {
        let client = context.client().await;
        let (lock, owner) = (reentrant(&client, "a"), Owner::new("one"));
        let outer = soon("acquire", lock.acquire().by(&owner)).await.expect("acquired");
        let inner = lock.acquire().by(&owner).await.expect("again");
        let queue = context.queue_of(Kind::Mutex, "a");
        context.remove(&queue, outer.token().sequence()).await;
        let bound = client.ttl() + context.late();
        for guard in [&outer, &inner] {
            assert_eq!(within(bound, "the loss", guard.lost()).await, Ended::Lost(LostReason::Revoked));
            assert!(!guard.is_held());
        }
        let new = soon("acquire", lock.acquire().by(&owner)).await.expect("acquired anew");
        assert!(new.token() > outer.token(), "a silent continuation");
        for _ in 0..2 {
            is_lost(inner.release().await, LostReason::Revoked);
        }
        is_lost(inner.check(), LostReason::Revoked);
        drop((outer, inner));
        assert!(new.is_held() && lock.hold_count(&owner) == 1, "a guard of the lost hold changed the new hold");
        assert!(try_acquire(&mutex(&client, "a")).await.is_none(), "still held on the server");
        new.release().await.expect("released");
    }

    "REENTRY-RACE" =>
    /// tasks of one owner that acquire at once make one node; it keeps its place when the task that started is dropped,
    /// and leaves when no task waits for it any more
    async fn reentry_race_makes_one_node(context) {
        let [client, other] = context.clients().await;
        let (lock, owner) = (reentrant(&client, "a"), Owner::new("one"));
        let elsewhere = acquire(&mutex(&other, "a")).await;
        let mut waiting: Vec<_> = (0..4).map(|_| Box::pin(lock.acquire().by(&owner))).collect();
        for acquiring in &mut waiting {
            assert!(acquiring.as_mut().now_or_never().is_none(), "past another holder");
        }
        until("the waiter is in the queue", || async { listing(&mutex(&other, "a")).await.len() == 2 }).await;
        let node = listing(&mutex(&other, "a")).await[1].sequence;
        // The second is dropped between its admission and its next poll.
        drop(waiting.remove(0));
        let never_polled = waiting.remove(0);
        elsewhere.release().await.expect("released");
        let third = soon("the third", waiting.pop().expect("it waits")).await.expect("acquired");
        let second = soon("the second", waiting.pop().expect("it waits")).await.expect("acquired");
        let tokens = (second.token().sequence(), third.token());
        assert_eq!(tokens, (node, second.token()), "the owner must have one node, in its place");
        assert_eq!((listing(&mutex(&other, "a")).await.len(), lock.hold_count(&owner)), (1, 3));
        drop(never_polled);
        assert_eq!(lock.hold_count(&owner), 2);
        release_all([second, third]).await;
        let elsewhere = acquire(&mutex(&other, "a")).await;
        let mut waiting = Box::pin(lock.acquire().by(&owner));
        assert!(waiting.as_mut().now_or_never().is_none(), "past another holder");
        until("the waiter is in the queue", || async { listing(&mutex(&other, "a")).await.len() == 2 }).await;
        drop(waiting);
        until("nobody waits", || async { listing(&mutex(&other, "a")).await.len() == 1 }).await;
        elsewhere.release().await.expect("released");
    }

    "REENTRY-RACE" =>
    /// an acquisition that is kept but not polled, for example in a `select!`, does not block other tasks of its owner
    async fn reentry_race_unpolled_acquire_blocks_no_other_task(context) {
        let [client, other] = context.clients().await;
        let (lock, owner) = (reentrant(&client, "a"), Owner::new("one"));
        client.link.delay(Duration::from_millis(20));
        for (held, polled) in [(false, true), (false, false), (true, true), (true, false)] {
            let elsewhere = if held { Some(acquire(&mutex(&other, "a")).await) } else { None };
            let mut kept = Box::pin(lock.acquire().by(&owner));
            assert!(kept.as_mut().now_or_never().is_none(), "the link is slow");
            if let Some(elsewhere) = elsewhere {
                until("the waiter is in the queue", || async { listing(&mutex(&other, "a")).await.len() == 2 }).await;
                elsewhere.release().await.expect("released");
            }
            let how = format!("another task of the owner, held: {held}");
            let mine = within(CLEAN_UP, &how, lock.acquire().by(&owner)).await.expect("acquired");
            assert!(within(CLEAN_UP, &how, lock.try_acquire().by(&owner)).await.expect("answered").is_some());
            assert_eq!(listing(&mutex(&other, "a")).await.len(), 1, "one node");
            let token = mine.token();
            mine.release().await.expect("released");
            match polled {
                true => {
                    let kept = kept.now_or_never().expect("the owner must hold since the admission").expect("acquired");
                    assert_eq!((kept.token(), kept.is_held()), (token, true));
                    kept.release().await.expect("released");
                }
                false => drop(kept),
            }
            // The client's lease takes nothing back.
            release(within(CLEAN_UP, "the next", mutex(&other, "a").acquire()).await.expect("acquired")).await;
        }
        client.link.heal();
    }
}
