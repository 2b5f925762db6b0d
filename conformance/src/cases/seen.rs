//! Metrics of a client, and levels of its events.

use std::time::Duration;

use latchwork_core::{Ended, ErrorKind, LostReason};
use tracing::Level;

use super::node::counts;
use super::rwlock::rwlock;
use super::semaphore::semaphore;
use crate::actions::{acquire, acquire_and_release, close, listing, mutex, queue_up, release, try_acquire};
use crate::bounds::{LONG_TTL, NOISE, QUIET_TTL, SHORT_TTL};
use crate::case::cases;
use crate::context::Context;
use crate::log::Log;
use crate::recorder::Recorder;
use crate::testbed::{Client, Fault};
use crate::waits::{contend, soon, until, within};

cases! {
    "SEEN-ACQUISITIONS" =>
    /// each acquisition counts once, by its outcome; the gauges show holders and waiters, and return to zero
    async fn seen_acquisitions_are_counted_by_their_outcome(context) {
        let Some((recorder, client)) = recorded(context, LONG_TTL).await else { return };
        recorder.scope(async {
            let mutex = mutex(&client, "a");
            for _ in 0..3 {
                acquire_and_release(&mutex).await;
            }
            let held = acquire(&mutex).await;
            assert!(try_acquire(&mutex).await.is_none());
            let late = soon("the deadline", mutex.acquire().within(Duration::from_millis(20))).await.expect_err("held");
            assert!(matches!(late.kind(), ErrorKind::Timeout | ErrorKind::Unavailable), "{late}");
            let late = if late.kind() == ErrorKind::Timeout { "timeout" } else { "unavailable" };
            let waiter = queue_up(&mutex, 2).await;
            until("it waits", async || of_a_mutex(&recorder, "latchwork_waiters", &[]) == 1.0).await;
            let one = |metric, value| assert_eq!(of_a_mutex(&recorder, metric, &[]), value, "{metric}: {recorder:?}");
            one("latchwork_holders", 1.0);
            waiter.cancel().await;
            one("latchwork_waiters", 0.0);
            drop(held);
            for (outcome, count) in [("acquired", 4.0), ("refused", 1.0), (late, 1.0), ("dropped", 1.0)] {
                let counted = of_a_mutex(&recorder, "latchwork_acquisitions_total", &[("outcome", outcome)]);
                assert_eq!(counted, count, "{outcome}: {recorder:?}");
            }
            one("latchwork_acquisitions_total", 7.0);
            one("latchwork_wait_seconds", 4.0);
            one("latchwork_hold_seconds", 4.0);
            one("latchwork_holders", 0.0);
            one("latchwork_losses_total", 0.0);

            release(soon("write", rwlock(&client, "a").write()).await.expect("free")).await;
            release(soon("permits", semaphore(&client, "a", 2).acquire(2)).await.expect("free")).await;
            one("latchwork_acquisitions_total", 7.0);
            for recipe in ["rwlock", "semaphore"] {
                let acquired = [("recipe", recipe), ("outcome", "acquired")];
                assert_eq!(recorder.sum("latchwork_acquisitions_total", &acquired), 1.0, "{recorder:?}");
            }
        }).await;
    }

    "SEEN-LOSSES" =>
    /// each loss counts once, when it happens and by its reason, also if the guard is not checked
    async fn seen_losses_are_counted_by_their_reason(context) {
        // A late renewal would be another loss.
        let Some((recorder, client)) = recorded(context, 2 * SHORT_TTL).await else { return };
        let operator = context.client().await;
        let lost = |reason| of_a_mutex(&recorder, "latchwork_losses_total", &[("reason", reason)]);
        recorder.scope(async {
            let revoked = acquire(&mutex(&client, "revoked")).await;
            let sequence = revoked.token().sequence();
            assert!(soon("force", mutex(&operator, "revoked").force_release(sequence)).await.expect("answered"));
            until("the revocation counts", async || lost("revoked") == 1.0).await;
            let ended = soon("acquire", mutex(&client, "ended").acquire().max_hold(2 * NOISE)).await.expect("free");
            until("the fixed end counts", async || lost("max_hold") == 1.0).await;
            assert_eq!(of_a_mutex(&recorder, "latchwork_holders", &[]), 0.0, "{recorder:?}");
            for (guard, reason) in [(revoked, LostReason::Revoked), (ended, LostReason::MaxHold)] {
                assert_eq!(soon("lost", guard.lost()).await, Ended::Lost(reason));
                drop(guard);
            }
            let closed = acquire(&mutex(&client, "closed")).await;
            close(&client).await;
            assert_eq!(lost("closed"), 1.0, "{recorder:?}");
            drop(closed);
            for (reason, count) in [("revoked", 1.0), ("max_hold", 1.0), ("closed", 1.0), ("expired", 0.0)] {
                assert_eq!(lost(reason), count, "{reason}: {recorder:?}");
            }
            assert_eq!(of_a_mutex(&recorder, "latchwork_holders", &[]), 0.0, "{recorder:?}");
        }).await;
    }

    "SEEN-OUTAGE" =>
    /// an outage is visible while it lasts: suspended, then lost as expired, also if the guard is not checked; and
    /// connected again at its end
    async fn seen_outage_is_counted(context) {
        if !context.can(Fault::Cut) {
            return context.leave_out("the fixture cannot cut links");
        }
        let Some((recorder, client)) = recorded(context, SHORT_TTL).await else { return };
        let backend = client.coordinator.backend().name();
        let is = |metric: &str, value: f64| recorder.sum(metric, &[("backend", backend)]) == value;
        let guard = recorder.scope(async { acquire(&mutex(&client, "a")).await }).await;
        assert!(is("latchwork_clients", 1.0) && is("latchwork_clients_suspended", 0.0), "{recorder:?}");
        client.link.cut();
        within(client.ttl(), "the suspension shows", shows(|| is("latchwork_clients_suspended", 1.0))).await;
        let expired = || of_a_mutex(&recorder, "latchwork_losses_total", &[("reason", "expired")]);
        within(client.ttl() + context.late(), "the loss shows", shows(|| expired() == 1.0)).await;
        assert!(is("latchwork_holders", 0.0), "{recorder:?}");
        let connected = !context.testbed.is_paused();
        if connected {
            let broken = recorder.sum("latchwork_clients_disconnected", &[("backend", backend)]);
            // A Redis Cluster's client connects to each server.
            let are_many = context.testbed.name() == "redis-cluster" && broken > 1.0;
            assert!(broken == 1.0 || are_many, "{recorder:?}");
        }
        client.link.heal();
        drop(guard);
        let ended = within(context.recovery(&client), "it serves again", mutex(&client, "a").acquire()).await;
        ended.expect("acquired").release().await.expect("released");
        until("its end shows", async || is("latchwork_clients_suspended", 0.0)).await;
        if connected {
            until("the connection shows", async || is("latchwork_clients_disconnected", 0.0)).await;
            assert!(recorder.sum("latchwork_reconnects_total", &[]) >= 1.0, "{recorder:?}");
        }
        assert_eq!(expired(), 1.0, "{recorder:?}");
        close(&client).await;
        until("no client stays", async || is("latchwork_clients", 0.0)).await;
    }

    "SEEN-LEASE" alone =>
    /// the log has the events of a lease: a late renewal, suspended, live again with the duration, lost with the
    /// reason; and that the client registers again
    async fn seen_lease_events_are_in_the_log(context) {
        if !context.can(Fault::Cut) {
            return context.leave_out("the fixture cannot cut links");
        }
        let log = Log::everywhere();
        let client = context.client_by(LONG_TTL, |config| config.request_timeout = LONG_TTL / 2).await;
        let backend = client.coordinator.backend().name();
        // A renewal is late, unless a client dials another server before.
        client.link.delay(client.ttl() / 2);
        let late = (context.fixture.config().hosts.len() < 2).then_some("latchwork.renewal.late");
        for name in late.into_iter().chain(["latchwork.lease.suspended"]) {
            let line = log.nth(name, 1).await;
            assert!(line.field("backend") == backend && line.field("left").ends_with('s'), "{line:?}");
        }
        client.link.heal();
        let line = log.nth("latchwork.lease.resumed", 1).await;
        assert!(line.field("backend") == backend && line.field("after").ends_with('s'), "{line:?}");
        // Its lease may be suspended once more.
        client.coordinator.close().await.expect("closed");

        let client = context.client_with(&context.config(SHORT_TTL)).await;
        client.link.cut();
        let lost = log.nth("latchwork.lease.lost", 1).await;
        assert_eq!((lost.field("backend"), lost.field("reason")), (backend, &*LostReason::Expired.to_string()));
        let names = log.lines().into_iter().map(|line| line.name);
        let told: Vec<_> = names.filter(|name| name.starts_with("latchwork.lease.")).collect();
        assert!(told.ends_with(&["latchwork.lease.suspended", "latchwork.lease.lost"]), "{told:?}");
        client.link.heal();
        let anew = log.nth("latchwork.registry.anew", 1).await;
        assert_eq!((anew.field("backend"), anew.field("reason")), (backend, lost.field("reason")));
        let undocumented = log.undocumented();
        assert!(undocumented.is_empty(), "{undocumented:#?}");
    }

    "SEEN-RECHECKS" alone =>
    /// a lost wake-up counts when the waiter's re-check finds its admission, and is in the log; a wake-up that arrives
    /// is not
    async fn seen_rechecks_that_find_an_admission_are_counted(context) {
        if !context.can(Fault::DropWake) {
            return context.leave_out("the fixture cannot drop a wake-up");
        }
        let log = Log::everywhere();
        let holder = context.client().await;
        let Some((recorder, waiting)) = recorded(context, LONG_TTL).await else { return };
        let found = || recorder.sum("latchwork_rechecks_found_total", &[("what", "admission")]);
        for (lost, count) in [(false, 0.0), (true, 1.0)] {
            let guard = acquire(&mutex(&holder, "a")).await;
            let waiter = queue_up(&mutex(&waiting, "a"), 2).await;
            let sequence = listing(&mutex(&holder, "a")).await[1].sequence;
            assert!(!lost || waiting.link.drop_wake(&context.queue("a"), sequence));
            guard.release().await.expect("released");
            release(waiter.guard().await).await;
            assert_eq!(found(), count, "lost: {lost}, {recorder:?}");
            assert_eq!(log.count("latchwork.recheck.found"), count as usize, "lost: {lost}, {:#?}", log.lines());
        }
        let found = log.nth("latchwork.recheck.found", 1).await;
        let backend = waiting.coordinator.backend().name();
        assert_eq!((found.field("backend"), found.field("what")), (backend, "admission"));
    }

    "SEEN-REQUESTS" alone =>
    /// the counted requests equal the requests that the server receives
    async fn seen_requests_equal_the_count_of_the_server(context) {
        let Some((recorder, client)) = recorded(context, QUIET_TTL).await else { return };
        if !counts(context).await {
            return;
        }
        let mutex = recorder.scope(async { mutex(&client, "a") }).await;
        acquire_and_release(&mutex).await;
        let sent = || recorder.sum("latchwork_requests_total", &[]);
        let (before, counted) = (context.requests().await, sent());
        let pairs = 50.0;
        for _ in 0..50 {
            acquire_and_release(&mutex).await;
        }
        let served = (context.requests().await - before) as f64;
        let sent = sent() - counted;
        // ZooKeeper counts the packets of a pipelined trip.
        let packets = if client.coordinator.backend().name() == "zookeeper" { 2.0 } else { 1.0 };
        assert!(
            (served / packets - 2.0..=served + 2.0).contains(&sent) && sent >= 2.0 * pairs,
            "{sent} requests were counted, but the server received {served}: {recorder:?}"
        );
    }

    "SEEN-LEVELS" alone =>
    /// a client that holds, renews and contends without faults logs one line at info, at its connect; its acquisitions
    /// are at debug
    async fn seen_levels_of_a_healthy_client(context) {
        let log = Log::everywhere();
        // At this TTL no renewal is late.
        let config = context.config(2 * LONG_TTL);
        let clients = [context.client_with(&config).await, context.client_with(&config).await];
        let held = acquire(&mutex(&clients[0], "held")).await;
        contend(2, |task, turn| {
            let mutex = mutex(&clients[task], "a");
            async move {
                for _ in 0..ROUNDS {
                    acquire_and_release(&mutex).await;
                    turn.send(()).expect("counted");
                }
            }
        })
        .await;
        tokio::time::sleep(clients[0].ttl() * 2 / 5).await;
        held.release().await.expect("held until now");
        let lines = log.lines();
        let allowed = ["latchwork.connected", "latchwork.server.advice"];
        let loud: Vec<_> =
            lines.iter().filter(|line| line.level <= Level::INFO && !allowed.contains(&line.name)).collect();
        assert!(loud.is_empty(), "{loud:#?}");
        let acquired = log.count("latchwork.acquired");
        assert!(acquired > 2 * ROUNDS, "the log has {acquired} acquisitions");
        let connected = log.count("latchwork.connected");
        assert!(connected >= 2, "the log has {connected} connected clients");
    }
}

const ROUNDS: usize = 30;

async fn recorded(context: &Context, ttl: Duration) -> Option<(Recorder, Client)> {
    if !cfg!(feature = "metrics") {
        context.leave_out("the build is without the feature `metrics`");
        return None;
    }
    let recorder = Recorder::new();
    let client = recorder.scope(context.client_with(&context.config(ttl))).await;
    Some((recorder, client))
}

fn of_a_mutex(recorder: &Recorder, metric: &str, labels: &[(&str, &str)]) -> f64 {
    recorder.sum(metric, &[labels, &[("recipe", "mutex")]].concat())
}

async fn shows(is: impl Fn() -> bool) {
    while !is() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
