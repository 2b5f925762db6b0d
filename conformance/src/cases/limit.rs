//! The Semaphore: a changing limit.

use std::time::Duration;

use latchwork_core::recipes::{Permit, Semaphore};
use latchwork_core::{ErrorKind, Limit, Result};

use super::semaphore::{is_conflict, permits, semaphore};
use crate::actions::{Waiter, close, queued, release, release_all};
use crate::bounds::CLEAN_UP;
use crate::case::cases;
use crate::errors::{fails, fails_for, says};
use crate::testbed::Client;
use crate::waits::{soon, until, within};

async fn outcome(waiter: Waiter<Permit>) -> Result<Permit> {
    within(CLEAN_UP, "the event", waiter.outcome()).await
}

async fn queue_up(semaphore: &Semaphore, weight: u32, place: usize) -> Waiter<Permit> {
    queued(semaphore.acquire(weight), semaphore.queue(), place).await
}

fn by_the_stored_limit(client: &Client, key: &str) -> Semaphore {
    client.coordinator.semaphore(key, Limit::Stored).expect("a good key")
}

async fn stored(semaphore: &Semaphore) -> Option<u32> {
    soon("read", semaphore.stored_limit()).await.expect("read")
}

async fn set(semaphore: &Semaphore, limit: u32) {
    soon("set_limit", semaphore.set_limit(limit)).await.expect("set");
}

async fn nodes(semaphore: &Semaphore) -> usize {
    soon("list", semaphore.queue().first(100)).await.expect("listed").len()
}

/// A wrong admission would arrive before this try's answer.
async fn settle(semaphore: &Semaphore) {
    assert!(soon("try", semaphore.try_acquire(1)).await.expect("answered").is_none(), "a try overtook");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

cases! {
    "SEMAPHORE-OR-STORED" =>
    /// a limit that was set outlives its clients: a client with the old limit follows it, or gets an error that names
    /// the option to do so
    async fn semaphore_or_stored_follows_a_limit_that_was_set(context) {
        let [one, two] = context.clients().await;
        let first = one.coordinator.semaphore("a", Limit::UnlessStored(2)).expect("a good key");
        let held = permits(&first, 2).await;
        assert!(soon("try", first.try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        assert_eq!(stored(&first).await, Some(2));
        set(&first, 3).await;
        let third = permits(&first, 1).await;
        release_all([held, third]).await;
        close(&one).await;
        // As after a restart.
        let again = two.coordinator.semaphore("a", Limit::UnlessStored(2)).expect("a good key");
        let wide = soon("try", again.try_acquire(3)).await.expect("answered").expect("it is free");
        assert!(soon("try", again.try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        wide.release().await.expect("released");
        release(permits(&again, 3).await).await;
        fails_for(soon("acquire", again.acquire(4)).await, ErrorKind::Conflict, "a", "the weight is above the stored limit");
        assert_eq!(stored(&again).await, Some(3), "it stored its own");
        for error in is_conflict(&semaphore(&two, "a", 2), 1, "another limit").await {
            says(&error, &["limit is 3", "not 2", "Limit::UnlessStored"]);
        }
        assert_eq!(nodes(&again).await, 0, "a refused join left its node");
    }

    "SEMAPHORE-OR-STORED" =>
    /// several clients that find no limit at once store one, and all follow it; a client with a weight above its own
    /// limit stores none
    async fn semaphore_or_stored_is_stored_once(context) {
        let clients: [_; 3] = context.clients().await;
        let heavy = clients[0].coordinator.semaphore("a", Limit::UnlessStored(2)).expect("a good key");
        fails_for(soon("acquire", heavy.acquire(3)).await, ErrorKind::Conflict, "a", "the weight is above the limit that would be stored");
        assert_eq!(stored(&heavy).await, None, "a refused join must not store a limit");
        let joins = clients.iter().zip(1..).map(|(client, limit)| async move {
            let semaphore = client.coordinator.semaphore("a", Limit::UnlessStored(limit)).expect("a good key");
            let permit = soon("acquire", semaphore.acquire(1)).await.expect("acquired");
            let stored = stored(&semaphore).await;
            permit.release().await.expect("released");
            stored
        });
        let stored = futures_util::future::join_all(joins).await;
        assert!(stored[0].is_some() && stored.iter().all(|limit| *limit == stored[0]), "{stored:?}");
    }

    "SEMAPHORE-RESIZE" =>
    /// limit 1 to 2 with waiters: the first is admitted at once, the next is not, and a waiter that follows the stored
    /// limit waits too; 2 to 4 admits the next two
    async fn semaphore_resize_up_admits_at_once(context) {
        let (one, two, three) = (context.quiet().await, context.quiet().await, context.quiet().await);
        let resized = semaphore(&one, "a", 1);
        let held = permits(&resized, 1).await;
        let following = by_the_stored_limit(&two, "a");
        assert_eq!(stored(&following).await, Some(1));
        let first = queue_up(&following, 1, 2).await;
        let second = queue_up(&semaphore(&three, "a", 1), 1, 3).await;
        let third = queue_up(&following, 1, 4).await;
        let fourth = queue_up(&semaphore(&three, "a", 1), 1, 5).await;
        settle(&following).await;
        assert!(!first.is_finished(), "over the limit");
        set(&resized, 2).await;
        assert_eq!(stored(&following).await, Some(2));
        let first = outcome(first).await.expect("admitted");
        settle(&following).await;
        assert!(held.is_held() && !second.is_finished(), "over the limit");
        fails(soon("acquire", semaphore(&three, "a", 1).acquire(1)).await, ErrorKind::Conflict, "the old limit");
        set(&following, 4).await;
        let second = outcome(second).await.expect("waiters follow the new limit");
        let third = outcome(third).await.expect("admitted");
        settle(&following).await;
        assert!(!fourth.is_finished(), "over the limit");
        held.release().await.expect("released");
        let fourth = outcome(fourth).await.expect("admitted");
        release_all([first, second, third, fourth]).await;
    }

    "SEMAPHORE-RESIZE" =>
    /// 3 to 2 with 2 + 1 held: no hold is revoked, and no waiter is admitted until the sum fits
    async fn semaphore_resize_down_revokes_no_hold(context) {
        let (one, two) = (context.quiet().await, context.quiet().await);
        for heavy_leaves in [true, false] {
            let key = if heavy_leaves { "a" } else { "b" };
            let resized = semaphore(&one, key, 3);
            let heavy = permits(&resized, 2).await;
            let light = permits(&semaphore(&two, key, 3), 1).await;
            set(&resized, 2).await;
            let following = by_the_stored_limit(&two, key);
            fails(soon("acquire", semaphore(&one, key, 3).acquire(1)).await, ErrorKind::Conflict, "the old limit");
            let waiting = queue_up(&following, 1, 3).await;
            let last = queue_up(&semaphore(&one, key, 2), 1, 4).await;
            settle(&following).await;
            assert!(heavy.is_held() && light.is_held(), "revoked");
            assert!(!waiting.is_finished(), "admitted beside three");
            until("the listing must show both holders as admitted", || async {
                let listed = soon("list", following.queue().first(9)).await.expect("listed");
                listed.iter().map(|entry| entry.admitted).eq([true, true, false, false])
            })
            .await;
            let (leaves, stays) = if heavy_leaves { (heavy, light) } else { (light, heavy) };
            leaves.release().await.expect("released");
            if !heavy_leaves {
                settle(&following).await;
                assert!(!waiting.is_finished(), "two of two permits are taken");
                stays.release().await.expect("released");
            }
            let waiter = outcome(waiting).await.expect("admitted");
            if heavy_leaves {
                settle(&following).await;
                assert!(stays.is_held() && !last.is_finished(), "admitted beside two");
                stays.release().await.expect("released");
            }
            let last = outcome(last).await.expect("admitted");
            release_all([waiter, last]).await;
        }
    }

    "SEMAPHORE-RESIZE" =>
    /// waiters whose weight does not fit the new limit end with `Conflict`, at any place, and the waiters after them are
    /// admitted
    async fn semaphore_resize_ends_who_does_not_fit(context) {
        let (one, two) = (context.quiet().await, context.quiet().await);
        let unfit = |ended: Result<Permit>| {
            let error = ended.expect_err("a weight above the limit can never be admitted");
            assert_eq!((error.kind(), error.key().is_some()), (ErrorKind::Conflict, true), "{error}");
            assert!(error.to_string().contains("was set to 2"), "{error}");
        };
        let resized = semaphore(&one, "a", 3);
        let held = permits(&resized, 1).await;
        let heavy = queue_up(&semaphore(&two, "a", 3), 3, 2).await;
        let heavy_too = queue_up(&resized, 3, 3).await;
        let light = queue_up(&semaphore(&two, "a", 3), 1, 4).await;
        settle(&resized).await;
        assert!(!light.is_finished(), "a waiter was admitted past the heavy waiters");
        set(&resized, 2).await;
        for heavy in [heavy, heavy_too] {
            unfit(outcome(heavy).await);
        }
        let light = outcome(light).await.expect("admitted");
        assert!(held.is_held() && light.is_held());
        let following = by_the_stored_limit(&two, "a");
        fails_for(soon("acquire", following.acquire(3)).await, ErrorKind::Conflict, "a", "the weight is above the stored limit");
        release_all([held, light]).await;

        let resized = semaphore(&one, "b", 3);
        let held = permits(&resized, 3).await;
        let before = queue_up(&resized, 1, 2).await;
        let heavy = queue_up(&semaphore(&two, "b", 3), 3, 3).await;
        let after = queue_up(&resized, 1, 4).await;
        set(&resized, 2).await;
        held.release().await.expect("released");
        let before = outcome(before).await.expect("admitted");
        unfit(outcome(heavy).await);
        let after = outcome(after).await.expect("admitted");
        release_all([before, after]).await;
    }

    "SEMAPHORE-RESIZE" =>
    /// without a stored limit, a client that follows it gets `Conflict`; the limit can be set before the first use, and
    /// outlives its clients
    async fn semaphore_resize_before_anybody_joins(context) {
        let [one, two] = context.clients().await;
        let following = by_the_stored_limit(&two, "a");
        assert_eq!(stored(&following).await, None);
        is_conflict(&following, 1, "no limit").await;
        let unset = by_the_stored_limit(&one, "a");
        let error = unset.set_limit(0).await.expect_err("zero");
        assert_eq!((error.argument(), error.operation()), (Some("limit"), Some("set_limit")), "{error}");
        set(&unset, 2).await;
        close(&one).await;
        is_conflict(&following, 3, "the weight is above the stored limit").await;
        assert_eq!(nodes(&following).await, 0, "a refused join left its node");
        let both = permits(&following, 2).await;
        assert!(soon("try", following.try_acquire(1)).await.expect("answered").is_none());
        both.release().await.expect("released");
        let both = soon("try", following.try_acquire(2)).await.expect("answered").expect("all permits are free");
        both.release().await.expect("released");
    }
}
