//! Client processes that are stopped and killed.

use std::time::Duration;

use latchwork_core::{Config, Token};
use rustix::process::Signal;
use tokio::time::Instant;

use crate::actions::{acquire, listing, queue_up, release, try_acquire};
use crate::bounds::{ANSWER, LONG_TTL, PATIENCE, QUIET_TTL, SHORT_TTL};
use crate::case::cases;
use crate::child::{Child, EndsEarly, Hold, HoldEvent, Order, WayOut};
use crate::context::Context;
use crate::testbed::{Client, Fault};
use crate::waits::{soon, until_within, within};

const MORTAL: Duration = SHORT_TTL.saturating_mul(2);

/// Long if the case ends the lease.
fn mortal(context: &Context) -> Duration {
    if context.keeps_time() { MORTAL } else { QUIET_TTL }
}

async fn survivor(context: &Context) -> Client {
    context.client_with(&context.config(mortal(context))).await
}

const VICTIM: &str = "a victim";

pub(super) fn processes(context: &Context, ttl: Duration) -> Option<Config> {
    let config = context.fixture.process_config();
    assert_eq!(config.is_some(), context.can(Fault::Processes), "Fixture::can must match the fixture");
    match config {
        Some(_) => assert!(!context.testbed.connectors().is_empty(), "a child process needs a connector"),
        None => context.leave_out("the fixture has no client processes"),
    }
    config.map(|mut config| {
        config.ttl = ttl;
        config.request_timeout = config.request_timeout.max(ANSWER);
        config
    })
}

/// The process does not close.
fn victims(context: &Context, ttl: Duration) -> Option<Config> {
    processes(context, ttl).map(|mut config| {
        config.label = Some(VICTIM.to_owned());
        config
    })
}

cases! {
    "NODE-DEATH" adapted clock =>
    /// after a holder process is killed, the next client holds within the TTL and the bound
    async fn process_killed_while_holding(context) {
        let Some(config) = victims(context, mortal(context)) else { return };
        let client = survivor(context).await;
        let mut victim = Child::start(&config, &Hold::of(context.contested("a").await));
        let HoldEvent::Held { token, .. } = victim.next().await else { panic!("holds first") };
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        victim.kill().await;
        context.end_lease_of(VICTIM, client.ttl()).await;
        let next = within(context.over(&client), "the next admission", waiter.outcome()).await.expect("admitted");
        assert!(next.token() > token);
        next.release().await.expect("released");
    }

    "NODE-DEATH" adapted clock =>
    /// a process that is killed while it waits in the middle of the queue blocks others no longer than its lease
    async fn process_killed_while_waiting_in_mid_queue(context) {
        let Some(config) = victims(context, mortal(context)) else { return };
        let client = survivor(context).await;
        let guard = acquire(&context.mutex(&client, "a")).await;
        let victim = Child::start(&config, &Hold::of(context.contested("a").await));
        let waits = || async { listing(&context.mutex(&client, "a")).await.len() == 2 };
        until_within(PATIENCE, "the process waits", waits).await;
        let waiter = queue_up(&context.mutex(&client, "a"), 3).await;
        victim.kill().await;
        guard.release().await.expect("released");
        context.end_lease_of(VICTIM, client.ttl()).await;
        release(within(context.over(&client), "the next admission", waiter.outcome()).await.expect("admitted")).await;
    }

    "LEASE-DEADLINE" clock =>
    /// a holder process that is stopped for longer than its TTL knows its loss at its first call, and its fenced write
    /// is refused
    async fn process_stopped_past_its_ttl_knows_at_the_first_call(context) {
        let Some(config) = processes(context, MORTAL) else { return };
        let client = survivor(context).await;
        let mut sleeper = Child::start(&config, &Hold::of(context.contested("a").await));
        let HoldEvent::Held { token: stale, .. } = sleeper.next().await else { panic!("holds first") };
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        sleeper.process.signal(Signal::STOP);
        let next = within(context.recovery(&client), "the next admission", waiter.outcome()).await.expect("admitted");
        let mut resource = Resource::default();
        assert!(resource.write(next.token(), "next"), "the next holder writes");
        // Before it continues, so that it looks first.
        sleeper.process.tell(Order::Look).await;
        sleeper.process.signal(Signal::CONT);
        let HoldEvent::Looked { is_held, check, lost_at_first_poll } = sleeper.next().await else {
            panic!("it looks first")
        };
        assert!(!is_held, "is_held() at the first call");
        assert_eq!(check.as_deref(), Some("expired"), "check() at the first call");
        assert!(lost_at_first_poll, "lost() at its first poll");
        assert!(!resource.write(stale, "stale"), "the resource refuses the stale token");
        assert_eq!(resource.value, "next");
        next.release().await.expect("released");
        sleeper.release().await;
    }

    "LEASE-CLOSE" adapted =>
    /// a process that closes its client leaves the queue at once
    async fn process_that_ends_in_order_leaves_at_once(context) {
        let Some(config) = processes(context, LONG_TTL) else { return };
        let client = context.client().await;
        let mut holder = Child::start(&config, &Hold::of(context.contested("a").await));
        assert!(matches!(holder.next().await, HoldEvent::Held { .. }));
        assert!(try_acquire(&context.mutex(&client, "a")).await.is_none(), "held by another process");
        holder.release().await;
        let next = within(LONG_TTL / 2, "the next admission", context.mutex(&client, "a").acquire()).await;
        release(next.expect("admitted")).await;
    }

    "LEASE-CLOSE" adapted =>
    /// a process whose work ends with an error while it holds releases everything if it uses `close_after`
    async fn process_whose_work_fails_leaves_at_once(context) {
        ends_early(context, WayOut::Error).await;
    }

    "LEASE-CLOSE" adapted =>
    /// a process whose work panics while it holds releases everything if it uses `close_after`
    async fn process_whose_work_panics_leaves_at_once(context) {
        ends_early(context, WayOut::Panic).await;
    }
}

async fn ends_early(context: &Context, by: WayOut) {
    // The control does not close: the lock must stay held.
    for (closes, ttl) in [(true, LONG_TTL), (false, QUIET_TTL)] {
        let Some(config) = victims(context, ttl) else { return };
        let client = context.client().await;
        let contested = context.contested("a").await;
        let mut ending = Child::start(&config, &EndsEarly { contested, by, closes });
        let _held = ending.next().await;
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        let from = Instant::now();
        ending.process.tell(Order::Release).await;
        let ended = soon("its end", ending.process.ended()).await;
        assert_eq!(ended.code(), Some(by.code()), "the exit code must be of the work's own end");
        if !closes {
            let stands =
                listing(&context.mutex(&client, "a")).await.iter().any(|entry| entry.label == VICTIM);
            assert!(
                stands && !waiter.is_finished(),
                "without a close the lock must stay held: otherwise the case has no result"
            );
            context.end_lease_of(VICTIM, ttl).await;
        }
        let next = waiter.guard().await;
        let waited = from.elapsed();
        assert!(
            !closes || waited < ttl / 2,
            "the lock was freed by the end of the lease, and not by the close, after {waited:?}"
        );
        next.release().await.expect("released");
    }
}

/// Like a database with `UPDATE … WHERE fence <= $1`.
#[derive(Default)]
struct Resource {
    fence: Option<Token>,
    value: &'static str,
}

impl Resource {
    fn write(&mut self, token: Token, value: &'static str) -> bool {
        let fresh = self.fence.is_none_or(|fence| fence <= token);
        if fresh {
            (self.fence, self.value) = (Some(token), value);
        }
        fresh
    }
}
