//! Clients without a runtime, and absent servers.

use std::thread;
use std::time::Duration;

use latchwork_core::ErrorKind;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::actions::{acquire, mutex, queue_up, release};
use crate::bounds::{LONG_TTL, NOISE, SHORT_TTL};
use crate::case::cases;
use crate::context::Context;
use crate::errors::fails;
use crate::exclusive::Guard;
use crate::testbed::Client;
use crate::waits::{soon, within};

cases! {
    "LEASE-CLOSE" =>
    /// a close from another runtime, while the runtime of the connect is not driven, returns within two request
    /// timeouts
    async fn lease_close_from_another_runtime_is_bounded(context) {
        let Some((home, client, guard)) = elsewhere(context) else { return };
        let (bound, began) = (context.fixture.config().request_timeout * 2 + context.late(), Instant::now());
        let closed = within(bound, "the close", client.coordinator.close()).await;
        if let Err(error) = closed {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        assert!(!guard.is_held(), "the holder must notice the end of the client");
        eprintln!("{}: closed from another runtime in {:?}", context.testbed.name(), began.elapsed());
        goes_on(context, &client).await;
        home.shutdown_background();
    }

    "LEASE-RENEWAL" =>
    /// a client that outlives its runtime reports that at once, and its holds are lost at their deadline
    async fn lease_renewal_gone_with_its_runtime_is_reported_at_once(context) {
        let Some((home, client, guard)) = elsewhere(context) else { return };
        home.shutdown_background();
        let lock = mutex(&client, "other");
        fails(within(NOISE, "the answer", lock.acquire()).await, ErrorKind::RuntimeGone, "nobody renews");
        fails(within(NOISE, "the answer", lock.queue(1)).await, ErrorKind::RuntimeGone, "nobody asks");
        fails(within(NOISE, "the answer", guard.release()).await, ErrorKind::RuntimeGone, "nobody gives back");
        goes_on(context, &client).await;
    }

    "LEASE-STATE" adapted =>
    /// without a server, a waiter gets an error after a TTL and a request timeout, and a release returns by the hold's
    /// deadline
    async fn lease_state_silence_is_waited_for_within_its_bound(context) {
        // On Redis the keys of a node outlive it by its own life.
        let (ttl, timeout) = (if context.keeps_time() { SHORT_TTL } else { LONG_TTL }, Duration::from_secs(2));
        let client = context.client_by(ttl, |config| config.request_timeout = timeout).await;
        let other = context.client().await;
        let (held, mine) = (acquire(&context.mutex(&other, "a")).await, acquire(&context.mutex(&client, "b")).await);
        let waiter = queue_up(&context.mutex(&client, "a"), 2).await;
        let ttl = client.ttl();
        client.link.cut();
        let released = within(ttl + context.late(), "the end of the release", mine.release());
        let waited = within(ttl + timeout + context.late(), "the end of the wait", waiter.outcome());
        let outlasts = async { context.outlast(&client) };
        let (released, waited, ()) = tokio::join!(biased; released, waited, outlasts);
        fails(released, ErrorKind::OutcomeUnknown, "nobody confirms");
        fails(waited, ErrorKind::Unavailable, "nobody answers");
        client.link.heal();
        soon("the release", held.release()).await.expect("released");
    }
}

fn elsewhere(context: &Context) -> Option<(Runtime, Client, Guard)> {
    if context.testbed.is_paused() {
        context.leave_out("the fixture has a single runtime");
        return None;
    }
    thread::scope(|threads| {
        let connecting = threads.spawn(|| {
            let home = Builder::new_current_thread().enable_all().build().expect("a runtime");
            let client = home.block_on(context.mortal());
            let guard = home.block_on(acquire(&mutex(&client, "a")));
            (home, client, guard)
        });
        Some(connecting.join().expect("no panic"))
    })
}

async fn goes_on(context: &Context, client: &Client) {
    let other = context.client().await;
    let next = within(context.recovery(client), "the next admission", mutex(&other, "a").acquire()).await;
    release(next.expect("acquired")).await;
}
