//! `min_hold`.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Barrier;
use tokio::time::Instant;

use crate::actions::{acquire, acquire_and_release, listing, release, try_acquire};
use crate::bounds::{LONG_TTL, NOISE, SHORT_TTL};
use crate::case::cases;
use crate::exclusive::{Guard, Lock};
use crate::waits::{soon, until, within};

const LEAST: Duration = NOISE.saturating_mul(4);
const BRIEF: Duration = Duration::from_millis(1200);

async fn hold_for(mutex: &Lock, least: Duration) -> Guard {
    soon("acquire", mutex.acquire().min_hold(least)).await.expect("acquired")
}

cases! {
    "MUTEX-AT-LEAST" adapted clock =>
    /// a hold that is released or dropped at once stays until its least time is over, and then the next client is
    /// admitted
    async fn mutex_at_least_keeps_others_out(context) {
        let (client, other) = (&context.quiet().await, &context.client().await);
        let tried = &Barrier::new(2);
        let both = [(true, "released"), (false, "dropped")].map(|(released, key)| async move {
            context.take_others(key).await;
            let (here, there) = (context.mutex(client, key), context.mutex(other, key));
            let clock = client.coordinator.lease().clock().clone();
            let (from, asked) = (Instant::now(), clock.now());
            let guard = hold_for(&here, LEAST).await;
            match released {
                true => {
                    guard.release().await.expect("answered");
                    guard.release().await.expect("answered");
                    assert!(!guard.is_held());
                }
                false => drop(guard),
            }
            assert!(from.elapsed() < LEAST, "the release waited");
            for lock in [&here, &there] {
                assert!(try_acquire(lock).await.is_none(), "released too early");
            }
            tried.wait().await;
            if released {
                context.passes(client, LEAST);
            }
            let next = within(LEAST + context.late(), "the next", there.acquire()).await.expect("acquired");
            let kept = clock.now().since(asked);
            assert!(kept >= LEAST, "released after {kept:?}");
            next.release().await.expect("released");
        });
        join_all(both).await;
    }

    "MUTEX-AT-LEAST" adapted =>
    /// a hold that lasts longer than its least time is released at once, and a close waits for kept holds
    async fn mutex_at_least_is_waited_for_by_close(context) {
        let [client, other] = context.clients().await;
        let guard = hold_for(&context.mutex(&client, "short"), Duration::from_millis(20)).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
        guard.release().await.expect("released");
        acquire_and_release(&context.mutex(&other, "short")).await;

        let from = Instant::now();
        drop(hold_for(&context.mutex(&client, "dropped"), BRIEF).await);
        let held = hold_for(&context.mutex(&client, "held"), BRIEF).await;
        within(BRIEF + context.late(), "the close", client.coordinator.close()).await.expect("closed");
        assert!(from.elapsed() >= BRIEF, "closed after {:?}", from.elapsed());
        assert!(!held.is_held());
        for key in ["dropped", "held"] {
            acquire_and_release(&context.mutex(&other, key)).await;
        }
    }

    "MUTEX-AT-LEAST" adapted clock =>
    /// the close of a client leaves a kept hold to its expiry if the backend promises that, and otherwise releases it
    async fn mutex_at_least_outlives_a_close_as_promised(context) {
        let ttl = if context.keeps_time() { 2 * SHORT_TTL } else { LONG_TTL };
        let client = context.client_with(&context.config(ttl)).await;
        let other = context.client().await;
        let guard = hold_for(&context.mutex(&client, "a"), Duration::from_secs(60)).await;
        let free = acquire(&context.mutex(&client, "free")).await;
        within(client.ttl() / 2, "the close", client.coordinator.close_now()).await.expect("closed");
        assert!(!guard.is_held() && !free.is_held());
        acquire_and_release(&context.mutex(&other, "free")).await;
        let stays = !listing(&context.mutex(&other, "a")).await.is_empty();
        assert_eq!(stays, client.coordinator.capabilities().minimum_outlives_close);
        if stays {
            context.end_lease(&client).await;
        }
        release(within(context.over(&client), "the next", context.mutex(&other, "a").acquire()).await.expect("acquired")).await;
    }

    "MUTEX-AT-LEAST" adapted clock =>
    /// a hold that is lost before its least time is not kept: a later hold of another client is not blocked
    async fn mutex_at_least_ends_with_the_lease(context) {
        let client = context.doomed().await;
        drop(hold_for(&context.mutex(&client, "a"), Duration::from_secs(60)).await);
        context.cut_off(&client).await;
        let other = context.client().await;
        let next = within(context.over(&client), "the next", context.mutex(&other, "a").acquire()).await.expect("acquired");
        client.link.heal();
        within(context.over(&client), "the close", client.coordinator.close()).await.expect("closed");
        until("only the next client holds", || async { listing(&context.mutex(&other, "a")).await.len() == 1 }).await;
        next.release().await.expect("released");
    }
}
