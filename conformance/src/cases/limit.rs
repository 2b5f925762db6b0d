//! The Semaphore: a limit that changes.

use std::time::Duration;

use latchwork_core::recipes::{Permit, Semaphore};
use latchwork_core::{ErrorKind, Limit, Result};
use tokio::task::JoinHandle;

use super::semaphore::{permits, semaphore};
use crate::bounds::{CLEAN_UP, QUIET_TTL};
use crate::case::cases;
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::{soon, until, within};

/// A client whose waiters re-check later than an [event](outcome) arrives.
async fn quiet(context: &Context) -> Client {
    context.client_with(&context.config(QUIET_TTL)).await
}

/// The result of a waiter in the background, which an event ends.
async fn outcome(waiter: JoinHandle<Result<Permit>>) -> Result<Permit> {
    within(CLEAN_UP, "the event", waiter).await.expect("no panic")
}

/// Starts an acquire in the background, and waits until it stands in the queue as its `place`-th.
async fn queue_up(semaphore: &Semaphore, weight: u32, place: usize) -> JoinHandle<Result<Permit>> {
    let task = tokio::spawn({
        let semaphore = semaphore.clone();
        async move { semaphore.acquire(weight).await }
    });
    until("it stands in the queue", || async { nodes(semaphore).await == place }).await;
    task
}

async fn nodes(semaphore: &Semaphore) -> usize {
    soon("list", semaphore.queue().first(100)).await.expect("listed").len()
}

/// A wrong admission has had its time: a try of another client has been there
/// and back.
async fn settle(semaphore: &Semaphore) {
    assert!(soon("try", semaphore.try_acquire(1)).await.expect("answered").is_none(), "a try overtook");
    tokio::time::sleep(Duration::from_millis(50)).await;
}

cases! {
    "SEMAPHORE-OR-STORED" =>
    /// a limit that was set survives its clients: a client with the old one follows it, or gets an
    /// error that names how it could
    async fn semaphore_or_stored_follows_a_limit_that_was_set(context) {
        let (one, two) = (context.client().await, context.client().await);
        let first = one.coordinator.semaphore("a", Limit::UnlessStored(2)).expect("a good key");
        let held = permits(&first, 2).await;
        assert!(soon("try", first.try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        assert_eq!(soon("read", first.stored_limit()).await.expect("read"), Some(2));
        soon("set_limit", first.set_limit(3)).await.expect("set");
        let third = permits(&first, 1).await;
        for permit in [held, third] {
            permit.release().await.expect("released");
        }
        one.coordinator.close().await.expect("closed");
        // As after a restart, with the same configuration.
        let again = two.coordinator.semaphore("a", Limit::UnlessStored(2)).expect("a good key");
        let wide = soon("try", again.try_acquire(3)).await.expect("answered").expect("it is free");
        assert!(soon("try", again.try_acquire(1)).await.expect("answered").is_none(), "over the limit");
        wide.release().await.expect("released");
        permits(&again, 3).await.release().await.expect("released");
        let error = soon("acquire", again.acquire(4)).await.expect_err("above the stored limit");
        assert_eq!((error.kind(), error.key()), (ErrorKind::Conflict, Some("a")), "{error}");
        assert_eq!(soon("read", again.stored_limit()).await.expect("read"), Some(3), "it stored its own");
        for error in [
            soon("acquire", semaphore(&two, "a", 2).acquire(1)).await.expect_err("another limit"),
            soon("try", semaphore(&two, "a", 2).try_acquire(1)).await.expect_err("another limit"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            let text = error.to_string();
            assert!(["limit is 3", "not 2", "Limit::UnlessStored"].iter().all(|part| text.contains(part)), "{text}");
        }
        assert_eq!(nodes(&again).await, 0, "a refused join left its node");
    }

    "SEMAPHORE-OR-STORED" =>
    /// several clients that find no limit at once store one, and all go by it; a client that asks
    /// for more than its own limit stores none
    async fn semaphore_or_stored_is_stored_once(context) {
        let clients = [context.client().await, context.client().await, context.client().await];
        let heavy = clients[0].coordinator.semaphore("a", Limit::UnlessStored(2)).expect("a good key");
        let error = soon("acquire", heavy.acquire(3)).await.expect_err("above what would be stored");
        assert_eq!((error.kind(), error.key()), (ErrorKind::Conflict, Some("a")), "{error}");
        assert_eq!(soon("read", heavy.stored_limit()).await.expect("read"), None, "stored by a join that was refused");
        let joins = clients.iter().zip(1..).map(|(client, limit)| async move {
            let semaphore = client.coordinator.semaphore("a", Limit::UnlessStored(limit)).expect("a good key");
            let permit = soon("acquire", semaphore.acquire(1)).await.expect("acquired");
            let stored = soon("read", semaphore.stored_limit()).await.expect("read");
            permit.release().await.expect("released");
            stored
        });
        let stored = futures_util::future::join_all(joins).await;
        assert!(stored[0].is_some() && stored.iter().all(|limit| *limit == stored[0]), "{stored:?}");
    }

    "SEMAPHORE-RESIZE" =>
    /// limit 1 to 2 while some wait: the first is admitted at once, the next is not, and a waiter
    /// that follows the stored limit waits too; 2 to 4 admits the next two
    async fn semaphore_resize_up_admits_at_once(context) {
        let (one, two, three) = (quiet(context).await, quiet(context).await, quiet(context).await);
        let resized = semaphore(&one, "a", 1);
        let held = permits(&resized, 1).await;
        let following = two.coordinator.semaphore("a", Limit::Stored).expect("a good key");
        assert_eq!(soon("read", following.stored_limit()).await.expect("read"), Some(1));
        let first = queue_up(&following, 1, 2).await;
        let second = queue_up(&semaphore(&three, "a", 1), 1, 3).await;
        let third = queue_up(&following, 1, 4).await;
        let fourth = queue_up(&semaphore(&three, "a", 1), 1, 5).await;
        settle(&following).await;
        assert!(!first.is_finished(), "over the limit");
        soon("set_limit", resized.set_limit(2)).await.expect("set");
        assert_eq!(soon("read", following.stored_limit()).await.expect("read"), Some(2));
        let first = outcome(first).await.expect("admitted");
        settle(&following).await;
        assert!(held.is_held() && !second.is_finished(), "over the limit");
        let error = soon("acquire", semaphore(&three, "a", 1).acquire(1)).await.expect_err("the old limit");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        soon("set_limit", following.set_limit(4)).await.expect("set");
        let second = outcome(second).await.expect("waiters follow the new limit");
        let third = outcome(third).await.expect("admitted");
        settle(&following).await;
        assert!(!fourth.is_finished(), "over the limit");
        held.release().await.expect("released");
        let fourth = outcome(fourth).await.expect("admitted");
        for permit in [first, second, third, fourth] {
            permit.release().await.expect("released");
        }
    }

    "SEMAPHORE-RESIZE" =>
    /// 3 to 2 with 2 + 1 held: nobody is revoked, and nobody admitted until the sum fits
    async fn semaphore_resize_down_revokes_nobody(context) {
        let (one, two) = (quiet(context).await, quiet(context).await);
        for heavy_leaves in [true, false] {
            let key = if heavy_leaves { "a" } else { "b" };
            let resized = semaphore(&one, key, 3);
            let heavy = permits(&resized, 2).await;
            let light = permits(&semaphore(&two, key, 3), 1).await;
            soon("set_limit", resized.set_limit(2)).await.expect("set");
            let following = two.coordinator.semaphore(key, Limit::Stored).expect("a good key");
            let error = soon("acquire", semaphore(&one, key, 3).acquire(1)).await.expect_err("the old limit");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
            let waiting = queue_up(&following, 1, 3).await;
            let last = queue_up(&semaphore(&one, key, 2), 1, 4).await;
            settle(&following).await;
            assert!(heavy.is_held() && light.is_held(), "revoked");
            assert!(!waiting.is_finished(), "admitted beside three");
            until("both holders are listed as such", || async {
                let listed = soon("list", following.queue().first(9)).await.expect("listed");
                listed.iter().map(|entry| entry.admitted).eq([true, true, false, false])
            })
            .await;
            let (leaves, stays) = if heavy_leaves { (heavy, light) } else { (light, heavy) };
            leaves.release().await.expect("released");
            let stays = if heavy_leaves {
                Some(stays)
            } else {
                settle(&following).await;
                assert!(!waiting.is_finished(), "two of two permits are taken");
                stays.release().await.expect("released");
                None
            };
            let waiter = outcome(waiting).await.expect("admitted");
            if let Some(stays) = stays {
                settle(&following).await;
                assert!(stays.is_held() && !last.is_finished(), "admitted beside two");
                stays.release().await.expect("released");
            }
            let last = outcome(last).await.expect("admitted");
            for permit in [waiter, last] {
                permit.release().await.expect("released");
            }
        }
    }

    "SEMAPHORE-RESIZE" =>
    /// waiters whose weight does not fit the new limit end with `Conflict`, at any place, and the waiters after them are
    /// admitted
    async fn semaphore_resize_ends_who_does_not_fit(context) {
        let (one, two) = (quiet(context).await, quiet(context).await);
        let unfit = |ended: Result<Permit>| {
            let error = ended.expect_err("it can never be admitted");
            assert_eq!((error.kind(), error.key().is_some()), (ErrorKind::Conflict, true), "{error}");
            assert!(error.to_string().contains("was set to 2"), "{error}");
        };
        let resized = semaphore(&one, "a", 3);
        let held = permits(&resized, 1).await;
        let heavy = queue_up(&semaphore(&two, "a", 3), 3, 2).await;
        let heavy_too = queue_up(&resized, 3, 3).await;
        let light = queue_up(&semaphore(&two, "a", 3), 1, 4).await;
        settle(&resized).await;
        assert!(!light.is_finished(), "past the heavy ones");
        soon("set_limit", resized.set_limit(2)).await.expect("set");
        for heavy in [heavy, heavy_too] {
            unfit(outcome(heavy).await);
        }
        let light = outcome(light).await.expect("admitted");
        assert!(held.is_held() && light.is_held());
        let following = two.coordinator.semaphore("a", Limit::Stored).expect("a good key");
        let error = soon("acquire", following.acquire(3)).await.expect_err("above the stored limit");
        assert_eq!((error.kind(), error.key()), (ErrorKind::Conflict, Some("a")), "{error}");
        for permit in [held, light] {
            permit.release().await.expect("released");
        }

        // In the middle, after a waiter that fits.
        let resized = semaphore(&one, "b", 3);
        let held = permits(&resized, 3).await;
        let before = queue_up(&resized, 1, 2).await;
        let heavy = queue_up(&semaphore(&two, "b", 3), 3, 3).await;
        let after = queue_up(&resized, 1, 4).await;
        soon("set_limit", resized.set_limit(2)).await.expect("set");
        held.release().await.expect("released");
        let before = outcome(before).await.expect("admitted");
        unfit(outcome(heavy).await);
        let after = outcome(after).await.expect("admitted");
        for permit in [before, after] {
            permit.release().await.expect("released");
        }
    }

    "SEMAPHORE-RESIZE" =>
    /// without a stored limit, a client that follows it gets `Conflict`; the limit can be set
    /// first, and outlives its clients
    async fn semaphore_resize_before_anybody_joins(context) {
        let (one, two) = (context.client().await, context.client().await);
        let following = two.coordinator.semaphore("a", Limit::Stored).expect("a good key");
        assert_eq!(soon("read", following.stored_limit()).await.expect("read"), None);
        for error in [
            soon("acquire", following.acquire(1)).await.expect_err("no limit"),
            soon("try", following.try_acquire(1)).await.expect_err("no limit"),
        ] {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        }
        let unset = one.coordinator.semaphore("a", Limit::Stored).expect("a good key");
        let error = unset.set_limit(0).await.expect_err("zero");
        assert_eq!((error.argument(), error.operation()), (Some("limit"), Some("set_limit")), "{error}");
        soon("set_limit", unset.set_limit(2)).await.expect("set");
        one.coordinator.close().await.expect("closed");
        // Nobody is there to be in its way, but the limit is.
        for error in [
            soon("try", following.try_acquire(3)).await.expect_err("above the stored limit"),
            soon("acquire", following.acquire(3)).await.expect_err("above the stored limit"),
        ] {
            assert_eq!((error.kind(), error.key()), (ErrorKind::Conflict, Some("a")), "{error}");
        }
        assert_eq!(nodes(&following).await, 0, "a refused join left its node");
        let both = permits(&following, 2).await;
        assert!(soon("try", following.try_acquire(1)).await.expect("answered").is_none());
        both.release().await.expect("released");
        let both = soon("try", following.try_acquire(2)).await.expect("answered").expect("all of them are free");
        both.release().await.expect("released");
    }
}
