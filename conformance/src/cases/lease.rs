//! LEASE-: how long the coordinator counts on a client.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use latchwork_core::{Ended, ErrorKind, HoldState, LeaseState, LostReason};

use crate::actions::{Waiter, acquire, listing, release, try_acquire};
use crate::bounds::{LONG_TTL, NOISE, SHORT_TTL};
use crate::case::cases;
use crate::errors::{fails, is_lost, refuses};
use crate::waits::{is_live, lease_state, soon, until, within};

cases! {
    "LEASE-ALIVE" adapted clock =>
    /// a hold lasts for two TTLs without any call, or for two renewals
    async fn lease_alive_is_renewed_in_the_background(context) {
        let (client, other) = (context.client_with(&context.config(2 * SHORT_TTL)).await, context.client().await);
        let guard = acquire(&context.mutex(&client, "a")).await;
        if context.keeps_time() {
            let survived = tokio::time::timeout(client.ttl() * 2, guard.lost()).await;
            assert!(survived.is_err(), "lost: {survived:?}");
        } else {
            for _ in 0..2 {
                let (mut left, asked) = (guard.remaining(), client.link.asked());
                // Only a renewal makes it grow.
                until("a renewal", || {
                    let renewed = guard.remaining() > left;
                    left = guard.remaining();
                    ready(renewed)
                })
                .await;
                assert!(client.link.asked() > asked, "a renewal must send a request");
            }
        }
        is_live(&client.coordinator).await;
        assert!(guard.is_held());
        assert!(try_acquire(&context.mutex(&other, "a")).await.is_none(), "still held on the server");
        guard.release().await.expect("released");
    }

    "LEASE-STATE" adapted clock =>
    /// the lease is suspended when the server does not answer and live again when it does; the lock is held all the
    /// time
    async fn lease_state_suspended_and_live_again(context) {
        let client = context.client().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let ttl = client.ttl();
        let mut states = guard.states();
        assert_eq!(states.next().await, Some(HoldState::Held));
        client.link.cut();
        context.passes(&client, ttl / 3);
        let suspended = within(ttl * 2 / 3 + NOISE, "suspension", states.next()).await;
        assert_eq!(suspended, Some(HoldState::Suspended));
        assert!(guard.is_held(), "a suspended hold must be held until its deadline");
        client.link.heal();
        assert_eq!(within(ttl, "recovery", states.next()).await, Some(HoldState::Held));
        guard.release().await.expect("released");
        assert_eq!(soon("the end", states.next()).await, Some(HoldState::Ended(Ended::Released)));
        assert_eq!(soon("the stream's end", states.next()).await, None);
    }

    "LEASE-STATE" adapted =>
    /// a process that was paused for longer than its TTL sees the loss at its first call, before any timer or task has
    /// run
    async fn lease_state_is_a_function_of_the_clock(context) {
        let client = context.client().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let early = guard.lost();
        let lease = client.coordinator.lease();
        assert!(guard.is_held());
        // As after a sleep of the machine. No task can run until the last check.
        lease.clock().jump(lease.ttl());
        assert!(!guard.is_held(), "is_held() at the first call");
        is_lost(guard.check(), LostReason::Expired);
        assert_eq!(guard.state(), HoldState::Ended(Ended::Lost(LostReason::Expired)));
        let lost = early.now_or_never().expect("lost() is ready at its first poll");
        assert_eq!(lost, Ended::Lost(LostReason::Expired));
        let waking = guard.run(async { panic!("work ran under a hold that is lost") }).now_or_never();
        assert!(waking.expect("answered at once").is_err());
    }

    "LEASE-STATE" adapted =>
    /// an acquisition that starts while the lease is suspended waits within its own deadline, and succeeds when the
    /// server answers again
    async fn lease_state_acquire_waits_while_suspended(context) {
        let client = context.client().await;
        client.link.cut();
        context.passes(&client, client.ttl() / 3);
        lease_state(&client.coordinator, client.ttl(), |state| state != LeaseState::Live).await;
        let mutex = context.mutex(&client, "a");
        fails(mutex.acquire().within(Duration::from_millis(300)).await, ErrorKind::Unavailable, "no server");
        let waiting = Waiter::of(mutex.acquire());
        tokio::task::yield_now().await;
        client.link.heal();
        release(waiting.guard().await).await;
    }

    "LEASE-STATE" adapted =>
    /// an acquisition with `fail_fast` fails when the lease is suspended, in the queue and at the start; another one
    /// keeps waiting
    async fn lease_state_fail_fast_does_not_wait(context) {
        let [holder, client] = context.clients().await;
        let own = acquire(&context.mutex(&client, "b")).await;
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let mutex = context.mutex(&client, "a");
        let (fast, patient) = (Waiter::of(mutex.acquire().fail_fast()), Waiter::of(mutex.acquire()));
        until("both waiters are in the queue", || async { listing(&context.mutex(&holder, "a")).await.len() == 3 }).await;
        assert!(!fast.is_finished(), "the waiter must wait while the server answers");
        client.link.cut();
        context.passes(&client, client.ttl() / 3);
        let ended = within(client.ttl(), "the end of its wait", fast.outcome()).await;
        let error = fails(ended, ErrorKind::Unavailable, "nobody answers");
        assert!(error.cause().is_some(), "{error}");
        assert!(own.is_held(), "fail_fast must end the wait at the suspension, before the loss");
        assert!(!patient.is_finished(), "a waiter without fail_fast must keep waiting");
        let bound = context.config(LONG_TTL).request_timeout + context.late();
        let at_once = within(bound, "its answer", mutex.acquire().fail_fast()).await;
        fails(at_once, ErrorKind::Unavailable, "nobody answers");
        client.link.heal();
        own.release().await.expect("answered");
        guard.release().await.expect("released");
        release(patient.guard().await).await;
    }

    "LEASE-DEADLINE" adapted clock =>
    /// a holder that is cut off knows its loss before another client is admitted
    async fn lease_deadline_is_known_before_another_is_admitted(context) {
        let (holder, other) = (context.doomed().await, context.client().await);
        let guard = Arc::new(acquire(&context.mutex(&holder, "a")).await);
        // Either task may wake first, so the clock decides.
        let waiting = tokio::spawn({
            let (mutex, guard) = (context.mutex(&other, "a"), Arc::clone(&guard));
            async move {
                let next = mutex.acquire().await;
                (next, guard.is_held())
            }
        });
        until("the waiter is in the queue", || async { listing(&context.mutex(&other, "a")).await.len() == 2 }).await;
        let lost = guard.lost();
        holder.link.cut();
        let recovery = context.over(&holder);
        context.outlast(&holder);
        let lost = within(recovery, "the loss", lost).await;
        assert_eq!(lost, Ended::Lost(LostReason::Expired));
        assert!(!guard.is_held());
        context.end_lease(&holder).await;
        let (next, believed) = within(recovery, "the next admission", waiting).await.expect("no panic");
        assert!(!believed, "another client was admitted before the holder knew its loss");
        let next = next.expect("admitted");
        assert!(next.token() > guard.token());
        holder.link.heal();
        next.release().await.expect("released");
    }

    "LEASE-DEADLINE" adapted =>
    /// a loss is final: later contact with the server does not restore the hold
    async fn lease_deadline_loss_is_final(context) {
        let client = context.doomed().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        client.link.cut();
        context.outlast(&client);
        within(context.over(&client), "the loss", guard.lost()).await;
        client.link.heal();
        let again = acquire(&context.mutex(&client, "a")).await;
        assert!(!guard.is_held());
        is_lost(guard.check(), LostReason::Expired);
        assert_eq!(guard.lost().now_or_never().expect("ready at its first poll"), Ended::Lost(LostReason::Expired));
        is_lost(guard.release().await, LostReason::Expired);
        assert!(again.is_held(), "the release of the lost hold changed the new hold");
        again.release().await.expect("released");
    }

    "LEASE-TTL" adapted =>
    /// the granted TTL is readable and not less than the requested one; a TTL outside 1 s to 1 h is refused by name
    async fn lease_ttl_granted_is_readable(context) {
        let shortest = Duration::from_secs(1);
        let client = context.client_with(&context.config(shortest)).await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let lease = client.coordinator.lease();
        assert!(lease.ttl() >= shortest, "granted {:?}", lease.ttl());
        // The margin is never part of the deadline.
        let left = lease.deadline().since(lease.clock().now());
        assert!(left <= lease.ttl() - lease.margin(), "{left:?} left of {:?}", lease.ttl());
        if let Err(error) = soon("release", guard.release()).await {
            assert!(error.may_pass() || error.lost_reason().is_some(), "{error}");
        }
        for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(3601)] {
            refuses(context.fixture.client(&context.config(ttl)).await, "ttl");
        }
    }
}
