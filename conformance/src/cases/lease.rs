//! LEASE-: how long the coordinator counts on a client.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use latchwork_core::contracts::{Joined, LeaseState};
use latchwork_core::recipes::Acquire;
use latchwork_core::{Ended, ErrorKind, Hold, LostReason, Release};
use tokio::time::Instant;

use crate::case::cases;
use crate::kit::{
    LONG_TTL, NOISE, QUIET_TTL, SHORT_TTL, acquire, in_time, is_live, lease_state, listing, queue_up, soon,
    try_acquire, until, within,
};
use crate::testbed::Fault;

cases! {
    "LEASE-ALIVE" adapted =>
    /// a hold lasts for five TTLs while nobody does anything
    async fn lease_alive_is_renewed_in_the_background(scene) {
        let (client, other) = (scene.mortal().await, scene.client().await);
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let ttl = client.coordinator.lease().ttl();
        let lost = guard.lost();
        let survived = tokio::time::timeout(ttl * 5, lost).await;
        assert!(survived.is_err(), "lost: {survived:?}");
        is_live(&client.coordinator).await;
        assert!(guard.is_held());
        assert!(try_acquire(&scene.mutex(&other, "a")).await.is_none(), "still held on the server");
        assert_eq!(guard.release().await.expect("released"), Release::Released);
    }

    "LEASE-STATE" adapted =>
    /// suspended when the server does not answer, live again when it does, and held all the while
    async fn lease_state_suspended_and_live_again(scene) {
        let client = scene.client().await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let ttl = client.coordinator.lease().ttl();
        let mut states = guard.states();
        assert_eq!(states.next().await, Some(LeaseState::Live));
        client.link.cut();
        let suspended = within(ttl * 2 / 3 + NOISE, "suspension", states.next()).await;
        assert_eq!(suspended, Some(LeaseState::Suspended));
        assert!(guard.is_held(), "suspended is held until the deadline");
        client.link.heal();
        assert_eq!(within(ttl, "recovery", states.next()).await, Some(LeaseState::Live));
        assert_eq!(guard.release().await.expect("released"), Release::Released);
        assert_eq!(soon("the stream's end", states.next()).await, None);
    }

    "LEASE-STATE" adapted =>
    /// a process that slept past its TTL sees the loss at its first call, before any timer or task has run
    async fn lease_state_is_a_function_of_the_clock(scene) {
        let client = scene.client().await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let early = guard.lost();
        let lease = client.coordinator.lease();
        assert!(guard.is_held());
        // As though the machine had slept. From here to the last look nothing is awaited, so no task can run.
        lease.clock().jump(lease.ttl());
        assert!(!guard.is_held(), "is_held() at the first call");
        assert_eq!(guard.check().expect_err("lost").lost_reason(), Some(LostReason::Expired));
        assert_eq!(guard.state(), LeaseState::Lost(LostReason::Expired));
        let lost = early.now_or_never().expect("lost() is ready at its first poll");
        assert_eq!(lost.reason(), LostReason::Expired);
        let waking = guard.run(async { panic!("work ran under a hold that is lost") }).now_or_never();
        assert!(waking.expect("answered at once").is_err());
    }

    "LEASE-STATE" adapted =>
    /// an acquisition that comes while suspended waits within its own deadline, and succeeds when the server is back
    async fn lease_state_acquire_waits_while_suspended(scene) {
        let client = scene.client().await;
        client.link.cut();
        lease_state(&client.coordinator, client.coordinator.lease().ttl(), |state| state != LeaseState::Live).await;
        let mutex = scene.mutex(&client, "a");
        let error = mutex.acquire_within(Duration::from_millis(300)).await.expect_err("no server");
        assert_eq!(error.kind(), &ErrorKind::Unavailable);
        let waiting = tokio::spawn({
            let mutex = mutex.clone();
            async move { mutex.acquire().await }
        });
        tokio::task::yield_now().await;
        client.link.heal();
        let guard = soon("acquire", waiting).await.expect("no panic").expect("acquired");
        in_time(guard.release().await.expect("released"));
    }

    "LEASE-STATE" adapted =>
    /// an acquisition that is to fail fast does so when the lease is suspended, in the queue and at the start; another waits on
    async fn lease_state_fail_fast_does_not_wait(scene) {
        let (holder, client) = (scene.client().await, scene.client().await);
        let own = acquire(&scene.mutex(&client, "b")).await;
        let guard = acquire(&scene.mutex(&holder, "a")).await;
        let mutex = scene.mutex(&client, "a");
        let wait = |options| {
            let mutex = mutex.clone();
            tokio::spawn(async move { mutex.acquire_with(options).await })
        };
        let (fast, patient) = (wait(Acquire::new().fail_fast()), wait(Acquire::new()));
        until("both stand in the queue", || async { listing(&scene.mutex(&holder, "a")).await.len() == 3 }).await;
        assert!(!fast.is_finished(), "while the server answers it waits");
        let ttl = client.coordinator.lease().ttl();
        client.link.cut();
        let error = within(ttl, "the end of its wait", fast).await.expect("no panic").expect_err("nobody answers");
        assert!(error.kind() == &ErrorKind::Unavailable && error.cause().is_some(), "{error}");
        assert!(own.is_held(), "by the suspension, and not by the loss");
        assert!(!patient.is_finished(), "who does not ask for it waits on");
        let bound = scene.config(LONG_TTL).request_timeout + NOISE;
        let at_once = within(bound, "its answer", mutex.acquire_with(Acquire::new().fail_fast())).await;
        assert_eq!(at_once.expect_err("nobody answers").kind(), &ErrorKind::Unavailable);
        client.link.heal();
        // It may have been lost since.
        let _ = own.release().await.expect("answered");
        in_time(guard.release().await.expect("released"));
        let next = soon("the patient one", patient).await.expect("no panic").expect("acquired");
        in_time(next.release().await.expect("released"));
    }

    "LEASE-DEADLINE" adapted =>
    /// a holder that is cut off knows of its loss before another is admitted
    async fn lease_deadline_is_known_before_another_is_admitted(scene) {
        let (holder, other) = (scene.mortal().await, scene.client().await);
        let guard = Arc::new(acquire(&scene.mutex(&holder, "a")).await);
        // Asked at the very admission, by the clock: which of two tasks wakes first on a busy machine says nothing.
        let waiting = tokio::spawn({
            let (mutex, guard) = (scene.mutex(&other, "a"), Arc::clone(&guard));
            async move {
                let next = mutex.acquire().await;
                (next, guard.is_held())
            }
        });
        until("the waiter stands in the queue", || async { listing(&scene.mutex(&other, "a")).await.len() == 2 }).await;
        let lost = guard.lost();
        holder.link.cut();
        let recovery = scene.recovery(&holder);
        let lost = within(recovery, "the loss", lost).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(!guard.is_held());
        let (next, believed) = within(recovery, "the next admission", waiting).await.expect("no panic");
        assert!(!believed, "another was admitted before the holder knew");
        let next = next.expect("admitted");
        assert!(next.token() > guard.token());
        holder.link.heal();
        in_time(next.release().await.expect("released"));
    }

    "LEASE-DEADLINE" adapted =>
    /// a loss is final: contact that comes back later does not revive the hold
    async fn lease_deadline_loss_is_final(scene) {
        let client = scene.mortal().await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        client.link.cut();
        within(scene.recovery(&client), "the loss", guard.lost()).await;
        client.link.heal();
        // A new acquisition proves that contact is back.
        let again = acquire(&scene.mutex(&client, "a")).await;
        assert!(!guard.is_held());
        assert_eq!(guard.check().expect_err("lost").lost_reason(), Some(LostReason::Expired));
        assert_eq!(guard.lost().now_or_never().expect("ready at its first poll").reason(), LostReason::Expired);
        assert_eq!(guard.release().await.expect("answered"), Release::AlreadyLost(LostReason::Expired));
        assert!(again.is_held(), "the release of the lost hold touched the new one");
        in_time(again.release().await.expect("released"));
    }

    "LEASE-TTL" adapted =>
    /// the granted TTL is readable and not less than what was asked; outside 1 s to 1 h is refused by name
    async fn lease_ttl_granted_is_readable(scene) {
        let shortest = Duration::from_secs(1);
        let client = scene.client_with(&scene.config(shortest)).await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let lease = client.coordinator.lease();
        assert!(lease.ttl() >= shortest, "granted {:?}", lease.ttl());
        // The deadline is never further off than the granted value less the margin.
        let left = lease.deadline().since(lease.clock().now());
        assert!(left <= lease.ttl() - lease.margin(), "{left:?} left of {:?}", lease.ttl());
        in_time(guard.release().await.expect("released"));
        for ttl in [Duration::ZERO, Duration::from_millis(999), Duration::from_secs(3601)] {
            let error = scene.stage.client(&scene.config(ttl)).await.expect_err("refused");
            assert_eq!(error.argument(), Some("ttl"), "{error}");
        }
    }

    "LEASE-FIXED" adapted =>
    /// a hold with a fixed end is renewed until then and not past it, and the next is admitted
    async fn lease_fixed_end_is_kept(scene) {
        let client = scene.mortal().await;
        let other = scene.client().await;
        let length = client.coordinator.lease().ttl() * 2;
        let asked = Instant::now();
        let guard = soon("acquire", scene.mutex(&client, "a").acquire_with(Acquire::new().max_hold(length)))
            .await
            .expect("acquired");
        let waiter = queue_up(&scene.mutex(&other, "a"), 2).await;
        let lost = within(length + NOISE, "the fixed end", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::MaxHold);
        assert!(asked.elapsed() >= length, "renewed until its end: {:?}", asked.elapsed());
        let next = within(scene.recovery(&client), "the next admission", waiter.outcome()).await.expect("admitted");
        // Only the hold ended.
        is_live(&client.coordinator).await;
        assert_eq!(guard.release().await.expect("answered"), Release::AlreadyLost(LostReason::MaxHold));
        in_time(next.release().await.expect("released"));
    }

    "LEASE-FIXED" adapted =>
    /// who comes behind a fixed end comes a margin after its holder has counted itself lost, as at an expiry, whether its guard
    /// is kept or dropped; at once behind a release
    async fn lease_fixed_end_has_a_margin(scene) {
        let other = scene.client().await;
        for (ttl, how) in [(SHORT_TTL, "kept"), (SHORT_TTL, "dropped"), (QUIET_TTL, "released")] {
            let client = scene.client_with(&scene.config(ttl)).await;
            let (length, margin) = (Duration::from_millis(300), client.coordinator.lease().margin());
            let asked = Instant::now();
            let options = Acquire::new().max_hold(length);
            let guard = soon("acquire", scene.mutex(&client, "a").acquire_with(options)).await.expect("acquired");
            let waiter = queue_up(&scene.mutex(&other, "a"), 2).await;
            let deed = Duration::from_millis(15);
            while guard.is_held() && guard.run(tokio::time::sleep(deed)).await.is_ok() {}
            assert_eq!(guard.lost().reason(), Some(LostReason::MaxHold));
            let bound = match how {
                "released" => {
                    let answer = guard.release().await.expect("answered");
                    assert_eq!(answer, Release::AlreadyLost(LostReason::MaxHold));
                    length
                }
                _ => margin,
            };
            let guard = (how != "dropped").then_some(guard);
            let next = within(bound + NOISE, "the next", waiter.outcome()).await.expect("admitted");
            let came = asked.elapsed();
            assert_eq!(came >= length + margin, how != "released", "{how}: the next came after {came:?}");
            in_time(next.release().await.expect("released"));
            drop(guard);
        }
    }

    "LEASE-CLOSE" adapted =>
    /// a close tells a live guard first, and gives back what it held a margin later; where all were released it waits for nothing
    async fn lease_close_has_a_margin(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let (guard, given_back) = (acquire(&scene.mutex(&client, "a")).await, acquire(&scene.mutex(&client, "b")).await);
        let behind = queue_up(&scene.mutex(&other, "a"), 2).await;
        in_time(given_back.release().await.expect("released"));
        let (from, margin) = (Instant::now(), client.coordinator.lease().margin());
        let closing = tokio::spawn({ let client = client.clone(); async move { client.coordinator.close().await } });
        assert_eq!(within(NOISE, "it is told", guard.lost()).await, Ended::Lost(LostReason::Closed));
        let late = soon("acquire", scene.mutex(&client, "b").acquire()).await.expect_err("it is being closed");
        assert_eq!(late.kind(), &ErrorKind::Closed);
        drop(guard);
        let next = soon("the next admission", behind.outcome()).await.expect("admitted");
        assert!(from.elapsed() >= margin, "given back after {:?}", from.elapsed());
        soon("close", closing).await.expect("no panic").expect("closed");
        in_time(next.release().await.expect("released"));

        let client = scene.client_with(&scene.config(QUIET_TTL)).await;
        in_time(acquire(&scene.mutex(&client, "a")).await.release().await.expect("released"));
        let (from, margin) = (Instant::now(), client.coordinator.lease().margin());
        soon("close", client.coordinator.close()).await.expect("closed");
        assert!(from.elapsed() < margin, "nobody was to be waited for");
    }

    "LEASE-CLOSE" adapted =>
    /// closing gives everything back at once, holders and waiters hear it, and later calls say closed
    async fn lease_close_gives_everything_back(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let behind = queue_up(&scene.mutex(&other, "a"), 2).await;
        let held_by_other = acquire(&scene.mutex(&other, "b")).await;
        let waiting = queue_up(&scene.mutex(&client, "b"), 2).await;
        let ttl = client.coordinator.lease().ttl();
        soon("close", client.coordinator.close()).await.expect("closed");
        assert_eq!(guard.lost().now_or_never(), Some(Ended::Lost(LostReason::Closed)), "told");
        // By the close, and not by the lease's end.
        let next = within(ttl / 2, "the next admission", behind.outcome()).await.expect("admitted");
        let error = waiting.outcome().await.expect_err("closed");
        assert!(
            matches!(error.kind(), ErrorKind::Closed | ErrorKind::Lost { reason: LostReason::Closed }),
            "{error}"
        );
        let error = soon("acquire", scene.mutex(&client, "a").acquire()).await.expect_err("closed");
        assert_eq!(error.kind(), &ErrorKind::Closed);
        assert_eq!(listing(&scene.mutex(&other, "b")).await.len(), 1, "the waiter's node is gone");
        soon("a second close", client.coordinator.close()).await.expect("closed");
        in_time(next.release().await.expect("released"));
        in_time(held_by_other.release().await.expect("released"));
    }

    "LEASE-CLOSE" adapted =>
    /// a close takes back the node of an acquisition whose answer is still on its way
    async fn lease_close_takes_back_what_is_in_flight(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        // Half of it for the answer's way back.
        client.link.delay(Duration::from_millis(600));
        let acquiring = tokio::spawn({
            let mutex = scene.mutex(&client, "a");
            async move { mutex.acquire().await }
        });
        until("its node is on the server", || async { listing(&scene.mutex(&other, "a")).await.len() == 1 }).await;
        let ttl = client.coordinator.lease().ttl();
        soon("close", client.coordinator.close()).await.expect("closed");
        // By the close, and not by the lease's end.
        let next = within(ttl / 2, "the next admission", scene.mutex(&other, "a").acquire()).await.expect("admitted");
        match soon("the end of the acquisition", acquiring).await.expect("no panic") {
            Ok(guard) => assert!(!guard.is_held(), "held by two"),
            Err(error) => assert_eq!(error.kind(), &ErrorKind::Closed, "{error}"),
        }
        in_time(next.release().await.expect("released"));
    }

    "LEASE-CLOSE" adapted =>
    /// a close while the server cannot be reached gives everything back when it can be, within the request timeout
    async fn lease_close_outlasts_a_break(scene) {
        let outage = Duration::from_millis(300);
        let mut config = scene.config(LONG_TTL);
        // A client may need a second to connect anew, on a machine that stands still for a while.
        config.request_timeout = outage + NOISE * 2;
        let (client, other) = (scene.client_with(&config).await, scene.client().await);
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let behind = queue_up(&scene.mutex(&other, "a"), 2).await;
        let ttl = client.coordinator.lease().ttl();
        // A close tells the guard first, and asks the server a margin later.
        let margin = client.coordinator.lease().margin();
        client.link.cut();
        let healed = async {
            tokio::time::sleep(margin + outage).await;
            client.link.heal();
        };
        let both = async { tokio::join!(biased; client.coordinator.close(), healed) };
        let (closed, ()) = within(margin + 2 * config.request_timeout, "close", both).await;
        closed.expect("closed");
        assert!(!guard.is_held());
        // By the close, and not by the lease's end.
        let next = within(ttl / 2, "the next admission", behind.outcome()).await.expect("admitted");
        in_time(next.release().await.expect("released"));
    }

    "LEASE-CLOSE" adapted =>
    /// dropping the last handle gives everything back in the background
    async fn lease_close_by_dropping(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let guard = acquire(&scene.mutex(&client, "a")).await;
        // A node without a guard, which nobody leaves but the end of the client.
        let bare = scene.join_mutex(&client, "b").await;
        assert!(matches!(bare, Joined::Admitted(_)), "{bare:?}");
        let (first, second) = (queue_up(&scene.mutex(&other, "a"), 2).await, queue_up(&scene.mutex(&other, "b"), 2).await);
        let ttl = client.coordinator.lease().ttl();
        // The link stays: a client that is dropped still reaches its server.
        let link = Arc::clone(&client.link);
        drop((guard, client));
        for waiter in [first, second] {
            // By the close, and not by the lease's end.
            let next = within(ttl / 2, "the next admission", waiter.outcome()).await.expect("admitted");
            in_time(next.release().await.expect("released"));
        }
        drop((bare, link));
    }

    "LEASE-REOPEN" adapted =>
    /// after a loss the next acquisition opens a new lease, and does not wait behind our own old node
    async fn lease_reopen_after_loss(scene) {
        let client = scene.mortal().await;
        let old_lease = client.coordinator.lease();
        let old = acquire(&scene.mutex(&client, "a")).await;
        client.link.cut();
        within(scene.recovery(&client), "the loss", old.lost()).await;
        client.link.heal();
        let new = within(scene.recovery(&client), "acquire", scene.mutex(&client, "a").acquire()).await.expect("acquired");
        assert!(new.is_held() && !old.is_held());
        is_live(&client.coordinator).await;
        assert!(old_lease.lost().is_some() || client.coordinator.capabilities().lease_per_node);
        assert!(new.token() > old.token());
        in_time(new.release().await.expect("released"));
    }

    "LEASE-REOPEN" adapted =>
    /// the lost lease is given back: a new acquisition does not wait until the server has forgotten our own old node
    async fn lease_reopen_does_not_wait_behind_our_own_old_node(scene) {
        let client = scene.client().await;
        let old = acquire(&scene.mutex(&client, "a")).await;
        let lease = client.coordinator.lease();
        // Lost here while it lives on the server: for the margin, when the keeper is dead; for nearly a TTL, when we slept.
        let bound = match client.link.kill_keeper() {
            true => lease.margin() / 2,
            false => {
                lease.clock().jump(lease.ttl());
                lease.ttl() / 2
            }
        };
        within(scene.recovery(&client), "the loss", old.lost()).await;
        let new = within(bound, "acquire", scene.mutex(&client, "a").acquire()).await.expect("acquired");
        assert!(new.is_held() && !old.is_held());
        assert!(new.token() > old.token());
        assert_eq!(listing(&scene.mutex(&client, "a")).await.len(), 1, "the old node is given back");
        in_time(new.release().await.expect("released"));
    }

    "LEASE-EXPIRY" adapted =>
    /// what hangs on a dead client's lease is gone within TTL and the stated bound
    async fn lease_expiry_frees_what_a_dead_client_held(scene) {
        let (dead, other) = (scene.mortal().await, scene.client().await);
        let guard = acquire(&scene.mutex(&dead, "a")).await;
        let waiter = queue_up(&scene.mutex(&other, "a"), 2).await;
        let bound = scene.recovery(&dead);
        dead.coordinator.crash().await;
        let next = within(bound, "the next admission", waiter.outcome()).await.expect("admitted");
        assert!(!guard.is_held(), "the dead client's hold is over by the clock");
        in_time(next.release().await.expect("released"));
    }

    "LEASE-KEEPER" adapted =>
    /// when the task that renews dies, the lease is lost at its deadline: silence is never life
    async fn lease_keeper_death_is_a_loss(scene) {
        let client = scene.mortal().await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        assert_eq!(client.link.kill_keeper(), scene.can(Fault::KillKeeper), "the testbed says what it can");
        if !scene.can(Fault::KillKeeper) {
            // Here all of the client's tasks die, as with the runtime that they ran on.
            client.coordinator.crash().await;
        }
        let lost = within(scene.recovery(&client), "the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Expired);
        assert!(!guard.is_held());
        let other = scene.client().await;
        let next = within(scene.recovery(&client), "acquire", scene.mutex(&other, "a").acquire()).await.expect("acquired");
        in_time(next.release().await.expect("released"));
        let empty = || async { listing(&scene.mutex(&other, "a")).await.is_empty() };
        until("the queue is empty", empty).await;
    }
}
