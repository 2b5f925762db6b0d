//! LEASE-: the end of a lease.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_core::backend::Joined;
use latchwork_core::{Ended, ErrorKind, LostReason};
use tokio::time::Instant;

use crate::actions::{Waiter, acquire, acquire_and_release, close, listing, queue_up, release, release_all};
use crate::bounds::{LONG_TTL, NOISE, QUIET_TTL, SHORT_TTL};
use crate::case::cases;
use crate::errors::{fails, is_lost};
use crate::testbed::Fault;
use crate::waits::{is_live, soon, until, within};

cases! {
    "LEASE-FIXED" adapted clock =>
    /// a hold with a fixed end is renewed until then and no longer, and the next client is admitted
    async fn lease_fixed_end_is_kept(context) {
        let client = context.client_with(&context.config(2 * SHORT_TTL)).await;
        let other = context.client().await;
        // If time is kept, the hold must be renewed.
        let length = if context.keeps_time() { client.ttl() * 5 / 4 } else { client.ttl() / 2 };
        let clock = client.coordinator.lease().clock().clone();
        let asked = clock.now();
        let guard = soon("acquire", context.mutex(&client, "a").acquire().max_hold(length)).await.expect("acquired");
        let waiter = queue_up(&context.mutex(&other, "a"), 2).await;
        context.passes(&client, length);
        let lost = within(length + context.late(), "the fixed end", guard.lost()).await;
        assert_eq!(lost, Ended::Lost(LostReason::MaxHold));
        let held = clock.now().since(asked);
        assert!(held >= length, "the hold must last until its fixed end: it lasted {held:?}");
        let next = within(context.recovery(&client), "the next admission", waiter.outcome()).await.expect("admitted");
        is_live(&client.coordinator).await;
        is_lost(guard.release().await, LostReason::MaxHold);
        next.release().await.expect("released");
    }

    "LEASE-FIXED" adapted clock =>
    /// the next client after a fixed end is admitted a margin after the holder has counted its hold as lost, as after
    /// an expiry, whether the guard is kept or dropped; after a release, at once
    async fn lease_fixed_end_has_a_margin(context) {
        let other = &context.client().await;
        // No late renewal ends a lease before, and the last margin is distinct from a release.
        let each = [(LONG_TTL, "kept"), (LONG_TTL, "dropped"), (QUIET_TTL, "released")].map(|(ttl, how)| async move {
            let client = context.client_with(&context.config(ttl)).await;
            context.take_others(how).await;
            // It counts from the join, which must be answered before.
            let (length, margin) = (Duration::from_secs(4), client.coordinator.lease().margin());
            let clock = client.coordinator.lease().clock().clone();
            let asked = clock.now();
            let guard = soon("acquire", context.mutex(&client, how).acquire().max_hold(length)).await.expect("acquired");
            let waiter = Waiter::of(context.mutex(other, how).acquire());
            let deed = Duration::from_millis(15);
            context.passes(&client, length);
            while guard.is_held() && guard.run(tokio::time::sleep(deed)).await.is_ok() {}
            assert_eq!(guard.lost().ended(), Some(Ended::Lost(LostReason::MaxHold)));
            let bound = match how {
                "released" => {
                    is_lost(guard.release().await, LostReason::MaxHold);
                    length
                }
                _ => margin,
            };
            let guard = (how != "dropped").then_some(guard);
            let next = within(bound + context.late(), "the next", waiter.outcome()).await.expect("admitted");
            let came = clock.now().since(asked);
            assert_eq!(came >= length + margin, how != "released", "{how}: the next client was admitted after {came:?}");
            next.release().await.expect("released");
            drop(guard);
        });
        join_all(each).await;
    }

    "LEASE-CLOSE" adapted clock =>
    /// a close notifies a live guard first, and releases its hold a margin later; if all guards were released, it does
    /// not wait
    async fn lease_close_has_a_margin(context) {
        let [client, other] = context.clients().await;
        let (guard, given_back) = (acquire(&context.mutex(&client, "a")).await, acquire(&context.mutex(&client, "b")).await);
        let behind = queue_up(&context.mutex(&other, "a"), 2).await;
        given_back.release().await.expect("released");
        let (from, margin) = (Instant::now(), client.coordinator.lease().margin());
        let closing = tokio::spawn({ let client = client.clone(); async move { client.coordinator.close().await } });
        assert_eq!(within(NOISE, "the event", guard.lost()).await, Ended::Lost(LostReason::Closed));
        fails(soon("acquire", context.mutex(&client, "b").acquire()).await, ErrorKind::Closed, "it is being closed");
        drop(guard);
        let next = within(client.ttl() / 2, "the next admission", behind.outcome()).await.expect("admitted");
        assert!(from.elapsed() >= margin, "released after {:?}", from.elapsed());
        soon("close", closing).await.expect("no panic").expect("closed");
        next.release().await.expect("released");

        let client = context.quiet().await;
        acquire_and_release(&context.mutex(&client, "a")).await;
        let (from, margin) = (Instant::now(), client.coordinator.lease().margin());
        close(&client).await;
        assert!(from.elapsed() < margin, "the close waited although no guard was alive");
    }

    "LEASE-CLOSE" adapted =>
    /// a close releases everything at once, holders and waiters are notified, and later calls fail as closed
    async fn lease_close_gives_everything_back(context) {
        let [client, other] = context.clients().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let behind = queue_up(&context.mutex(&other, "a"), 2).await;
        let held_by_other = acquire(&context.mutex(&other, "b")).await;
        let waiting = queue_up(&context.mutex(&client, "b"), 2).await;
        close(&client).await;
        assert_eq!(guard.lost().now_or_never(), Some(Ended::Lost(LostReason::Closed)), "told");
        let next = within(client.ttl() / 2, "the next admission", behind.outcome()).await.expect("admitted");
        let error = waiting.outcome().await.expect_err("closed");
        assert!(matches!(error.kind(), ErrorKind::Closed | ErrorKind::Lost(LostReason::Closed)), "{error}");
        fails(soon("acquire", context.mutex(&client, "a").acquire()).await, ErrorKind::Closed, "closed");
        assert_eq!(listing(&context.mutex(&other, "b")).await.len(), 1, "the waiter's node is gone");
        soon("a second close", client.coordinator.close()).await.expect("closed");
        release_all([next, held_by_other]).await;
    }

    "LEASE-CLOSE" adapted =>
    /// a close removes the node of an acquisition whose answer is still pending
    async fn lease_close_removes_the_node_of_a_pending_acquire(context) {
        let [client, other] = context.clients().await;
        client.link.delay(Duration::from_millis(600));
        let waiter = Waiter::of(context.mutex(&client, "a").acquire());
        until("the node is on the server", || async { listing(&context.mutex(&other, "a")).await.len() == 1 }).await;
        close(&client).await;
        let next = within(client.ttl() / 2, "the next admission", context.mutex(&other, "a").acquire()).await.expect("admitted");
        match waiter.outcome().await {
            Ok(guard) => assert!(!guard.is_held(), "held by two"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Closed, "{error}"),
        }
        next.release().await.expect("released");
    }

    "LEASE-CLOSE" adapted =>
    /// a close without a connection releases everything when the server answers again within the request timeout
    async fn lease_close_outlasts_a_break(context) {
        let outage = Duration::from_millis(300);
        let timeout = outage + NOISE * 2;
        let client = context.client_by(LONG_TTL, |config| config.request_timeout = timeout).await;
        let other = context.client().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let behind = queue_up(&context.mutex(&other, "a"), 2).await;
        // A close notifies the guard a margin before it asks the server.
        let margin = client.coordinator.lease().margin();
        client.link.cut();
        let healed = async {
            tokio::time::sleep(margin + outage).await;
            client.link.heal();
        };
        let both = async { tokio::join!(biased; client.coordinator.close(), healed) };
        let (closed, ()) = within(margin + 2 * timeout, "close", both).await;
        closed.expect("closed");
        assert!(!guard.is_held());
        release(within(client.ttl() / 2, "the next admission", behind.outcome()).await.expect("admitted")).await;
    }

    "LEASE-CLOSE" adapted =>
    /// dropping the last handle releases everything in the background
    async fn lease_close_by_dropping(context) {
        let [client, other] = context.clients().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        // Only the client's end removes this node.
        let bare = context.join_mutex(&client, "b").await;
        assert!(matches!(bare, Joined::Admitted(_)), "{bare:?}");
        let (first, second) = (queue_up(&context.mutex(&other, "a"), 2).await, queue_up(&context.mutex(&other, "b"), 2).await);
        let ttl = client.ttl();
        // A dropped client still reaches its server.
        let link = Arc::clone(&client.link);
        drop((guard, client));
        for waiter in [first, second] {
            release(within(ttl / 2, "the next admission", waiter.outcome()).await.expect("admitted")).await;
        }
        drop((bare, link));
    }

    "LEASE-REOPEN" adapted clock =>
    /// after a loss the next acquisition opens a new lease, and does not wait for the client's own old node
    async fn lease_reopen_after_loss(context) {
        let client = context.doomed().await;
        let old_lease = client.coordinator.lease();
        let old = acquire(&context.mutex(&client, "a")).await;
        client.link.cut();
        context.outlast(&client);
        within(context.over(&client), "the loss", old.lost()).await;
        context.end_lease(&client).await;
        client.link.heal();
        let new = within(context.over(&client), "acquire", context.mutex(&client, "a").acquire()).await.expect("acquired");
        assert!(new.is_held() && !old.is_held());
        is_live(&client.coordinator).await;
        assert!(old_lease.lost().is_some() || client.coordinator.capabilities().lease_per_node);
        assert!(new.token() > old.token());
        new.release().await.expect("released");
    }

    "LEASE-REOPEN" adapted =>
    /// a lost lease is ended on the server: a new acquisition does not wait until the server has removed the client's
    /// own old node
    async fn lease_reopen_does_not_wait_for_the_old_node(context) {
        let client = context.client().await;
        let old = acquire(&context.mutex(&client, "a")).await;
        let lease = client.coordinator.lease();
        // The server keeps the lost lease for the margin, or nearly for a TTL after a jump.
        let bound = match client.link.kill_renewal() {
            true => lease.margin() / 2,
            false => {
                lease.clock().jump(lease.ttl());
                lease.ttl() / 2
            }
        };
        within(context.recovery(&client), "the loss", old.lost()).await;
        let new = within(bound, "acquire", context.mutex(&client, "a").acquire()).await.expect("acquired");
        assert!(new.is_held() && !old.is_held());
        assert!(new.token() > old.token());
        assert_eq!(listing(&context.mutex(&client, "a")).await.len(), 1, "the old node is given back");
        new.release().await.expect("released");
    }

    "LEASE-EXPIRY" adapted clock =>
    /// the nodes of a dead client are gone within its TTL and the stated bound
    async fn lease_expiry_frees_the_holds_of_a_dead_client(context) {
        let (dead, other) = (context.doomed().await, context.client().await);
        let guard = acquire(&context.mutex(&dead, "a")).await;
        let waiter = queue_up(&context.mutex(&other, "a"), 2).await;
        let bound = context.over(&dead);
        context.kill(&dead).await;
        let next = within(bound, "the next admission", waiter.outcome()).await.expect("admitted");
        assert!(!guard.is_held(), "the deadline of the dead client's hold has passed");
        next.release().await.expect("released");
    }

    "LEASE-RENEWAL" adapted clock =>
    /// when the renewal task dies, the lease is lost at its deadline: a missing failure does not count as a renewal
    async fn lease_renewal_death_is_a_loss(context) {
        let client = context.doomed().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        assert_eq!(client.link.kill_renewal(), context.can(Fault::KillRenewal), "Fixture::can must match the fixture");
        if !context.can(Fault::KillRenewal) {
            // All tasks die, as with their runtime.
            latchwork_core::crash(&client.coordinator).await;
        }
        context.outlast(&client);
        let lost = within(context.over(&client), "the loss", guard.lost()).await;
        assert_eq!(lost, Ended::Lost(LostReason::Expired));
        assert!(!guard.is_held());
        if !context.keeps_time() {
            context.end_lease(&client).await;
        }
        let other = context.client().await;
        let mutex = context.mutex(&other, "a");
        release(within(context.over(&client), "acquire", mutex.acquire()).await.expect("acquired")).await;
        until("the queue is empty", || async { listing(&mutex).await.is_empty() }).await;
    }
}
