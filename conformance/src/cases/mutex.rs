//! The Mutex.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use latchwork_core::{Ended, ErrorKind, LostReason};

use crate::actions::{
    Waiter, acquire, acquire_and_release, in_turn, listing, queue_up, release, release_all, try_acquire,
};
use crate::bounds::{LONG_TTL, NOISE};
use crate::case::cases;
use crate::errors::{fails, fails_for, refuses};
use crate::testbed::Client;
use crate::waits::{contend, soon, until, within};

cases! {
    "MUTEX-EXCLUSION" adapted =>
    /// many tasks on several clients: never two holders at once, tokens strictly rising, all tasks served
    async fn mutex_excludes(context) {
        let clients: [_; 3] = context.clients().await;
        let (inside, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
        contend(12, |task, held| {
            let mutex = context.mutex(&clients[task % clients.len()], "a");
            let (inside, last) = (Arc::clone(&inside), Arc::clone(&last));
            async move {
                for _ in 0..4 {
                    let guard = mutex.acquire().await.expect("acquired");
                    assert_eq!(inside.fetch_add(1, Ordering::AcqRel), 0, "two at once");
                    tokio::task::yield_now().await;
                    let token = guard.token().as_u64();
                    assert!(last.swap(token, Ordering::AcqRel) < token, "tokens rise");
                    assert_eq!(inside.fetch_sub(1, Ordering::AcqRel), 1, "two at once");
                    guard.release().await.expect("released");
                    held.send(()).expect("counted");
                }
            }
        })
        .await;
    }

    "MUTEX-FAIR" adapted =>
    /// waiters are admitted in the order in which they joined
    async fn mutex_is_fair(context) {
        let clients: [_; 2] = context.clients().await;
        let guard = acquire(&context.mutex(&clients[0], "a")).await;
        let waiters = in_turn((0..6).map(async |place| queue_up(&context.mutex(&clients[place % 2], "a"), place + 2).await)).await;
        let mut last = guard.token();
        guard.release().await.expect("released");
        for waiter in waiters {
            let guard = waiter.guard().await;
            assert!(guard.token() > last, "out of order");
            last = guard.token();
            guard.release().await.expect("released");
        }
    }

    "MUTEX-TRY" adapted =>
    /// a try on a held lock returns `None`, overtakes no waiter and leaves no node
    async fn mutex_try_never_waits_or_overtakes(context) {
        let [client, other] = context.clients().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        assert!(try_acquire(&context.mutex(&other, "a")).await.is_none());
        assert_eq!(listing(&context.mutex(&client, "a")).await.len(), 1, "a refused try left a node");
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        guard.release().await.expect("released");
        assert!(try_acquire(&context.mutex(&other, "a")).await.is_none(), "overtook");
        waiter.guard().await.release().await.expect("released");
        release(try_acquire(&context.mutex(&other, "a")).await.expect("free")).await;
    }

    "MUTEX-TRY" adapted =>
    /// of several tries at one instant on a free lock, one succeeds; at most one if others see a refused try
    async fn mutex_try_of_several_at_one_instant(context) {
        let clients: [_; 6] = context.clients().await;
        let clean_try = context.testbed.capabilities().clean_try;
        context.take_others("a").await;
        for round in 0..20 {
            let tries = clients.iter().map(async |client| try_acquire(&context.mutex(client, "a")).await);
            let answers = soon("the answers", join_all(tries)).await;
            let admitted: Vec<_> = answers.into_iter().flatten().collect();
            assert!(admitted.len() <= 1, "round {round}: two holders at once");
            assert!(!clean_try || admitted.len() == 1, "round {round}: no try succeeded, although the lock was free");
            release_all(admitted).await;
            assert!(listing(&context.mutex(&clients[0], "a")).await.is_empty(), "a refused try left a node");
        }
    }

    "MUTEX-TRY" adapted =>
    /// a try without a server fails with `Unavailable` within the request timeout
    async fn mutex_try_answers_in_time_without_a_server(context) {
        let timeout = NOISE * 2;
        let client = context.client_by(LONG_TTL, |config| config.request_timeout = timeout).await;
        let held = acquire(&context.mutex(&client, "b")).await;
        client.link.cut();
        // A try on "b" comes after this release.
        drop(held);
        join_all(["a", "b"].map(async |key| {
            let answer = within(timeout + context.late(), "the answer", context.mutex(&client, key).try_acquire()).await;
            let error = fails(answer, ErrorKind::Unavailable, "no server");
            assert!(error.is_retryable());
            assert_eq!((error.operation(), error.key()), (Some(context.adapter.try_operation()), Some(key)));
        }))
        .await;
        client.link.heal();
        // The try may have been sent.
        acquire_and_release(&context.mutex(&client, "a")).await;
    }

    "MUTEX-WITHIN" adapted =>
    /// a total deadline is kept, and no node of a timed-out acquisition stays
    async fn mutex_within_times_out_and_leaves_nothing(context) {
        let [client, other] = context.clients().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        // Without an answer it would be no timeout. A jump would suspend the lease.
        let deadline = 2 * NOISE;
        let late = within(deadline + context.late(), "the timeout", context.mutex(&other, "a").acquire().within(deadline)).await;
        fails_for(late, ErrorKind::Timeout, "a", "held");
        until("its node is gone", || async { listing(&context.mutex(&client, "a")).await.len() == 1 }).await;
        guard.release().await.expect("released");
        release(soon("acquire", context.mutex(&other, "a").acquire().within(Duration::from_secs(10))).await.expect("free")).await;
    }

    "MUTEX-WITHIN" adapted =>
    /// a deadline that passes while others hold is a timeout; a deadline that passes without an answer of the server is
    /// reported as an outage
    async fn mutex_within_distinguishes_an_outage_from_contention(context) {
        let (holder, client, beside) = (context.client().await, context.mortal().await, context.client().await);
        let guard = acquire(&context.mutex(&holder, "a")).await;
        let ttl = client.ttl();
        // Also after the loss, when the waiter cannot join again.
        for deadline in [ttl * 4 / 5, ttl * 5 / 4] {
            let wait = |client: &Client| Waiter::of(context.mutex(client, "a").acquire().within(deadline));
            let (cut_off, told) = (wait(&client), wait(&beside));
            until("both waiters are in the queue", || async { listing(&context.mutex(&holder, "a")).await.len() == 3 }).await;
            client.link.cut();
            let outage = fails_for(cut_off.outcome().await, ErrorKind::Unavailable, "a", "nobody answers");
            assert!(outage.cause().is_some(), "{outage}");
            let busy = fails(told.outcome().await, ErrorKind::Timeout, "held");
            assert!(busy.cause().is_none(), "{busy}");
            client.link.heal();
            until("their nodes are gone", || async { listing(&context.mutex(&holder, "a")).await.len() == 1 }).await;
        }
        guard.release().await.expect("released");
    }

    "MUTEX-RELEASE" adapted =>
    /// a release is idempotent, and a released hold reports that it is not held
    async fn mutex_release_is_idempotent(context) {
        let client = context.client().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        assert!(guard.is_held() && guard.check().is_ok());
        guard.release().await.expect("released");
        guard.release().await.expect("released");
        assert!(!guard.is_held());
        fails(guard.check(), ErrorKind::NotHeld, "released");
        assert_eq!(soon("the end", guard.lost()).await, Ended::Released);
        let unguarded = guard.run(async { panic!("the work was polled without a hold") }).await;
        fails(unguarded, ErrorKind::NotHeld, "released");
        let next = try_acquire(&context.mutex(&client, "a")).await.expect("free");
        drop(guard);
        assert!(next.is_held(), "the drop of the old guard changed the new hold");
        assert!(try_acquire(&context.mutex(&client, "a")).await.is_none());
        next.release().await.expect("released");
    }

    "MUTEX-RUN" adapted =>
    /// `run` returns the work's output, and drops the work when the hold is lost
    async fn mutex_run_is_dropped_at_the_loss(context) {
        let client = context.doomed().await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        assert_eq!(guard.run(async { 7 }).await.expect("held"), 7);
        let alive = Arc::new(());
        let works = Arc::clone(&alive);
        client.link.cut();
        let running = guard.run(async move {
            let _works = works;
            std::future::pending::<()>().await;
        });
        context.outlast(&client);
        let lost = within(context.over(&client), "the loss", running).await.expect_err("lost");
        assert_eq!((lost.key(), lost.lost_reason()), (Some("a"), Some(LostReason::Expired)));
        assert_eq!(Arc::strong_count(&alive), 1, "the work was dropped");
        context.end_lease(&client).await;
        client.link.heal();
    }

    "MUTEX-OPTIONS" adapted =>
    /// bad options are refused at once, by name
    async fn mutex_bad_options_are_refused(context) {
        let client = context.client().await;
        let mutex = context.mutex(&client, "a");
        for (request, argument) in [
            (mutex.acquire().within(Duration::ZERO), "within"),
            (mutex.acquire().max_hold(Duration::ZERO), "max_hold"),
            (mutex.acquire().label("l".repeat(4097)), "label"),
        ] {
            assert_eq!(refuses(request.await, argument).key(), Some("a"));
        }
        assert!(listing(&mutex).await.is_empty());
    }

    "CAPABILITIES" =>
    /// the capabilities of a client equal the capabilities that the testbed expects
    async fn capabilities_match_the_testbed(context) {
        let client = context.client().await;
        assert_eq!(client.coordinator.capabilities(), context.testbed.capabilities());
    }
}
