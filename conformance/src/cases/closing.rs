//! LEASE-CLOSE with thousands of holds: other clients do not wait for all of it.

use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use latchwork_core::ErrorKind;
use latchwork_core::backend::decide::{IN_ONE_STEP, LEAVES_AT_ONCE, giving_back_bound};
use tokio::time::Instant;

use crate::actions::{acquire_many, mutex, release, release_all};
use crate::bounds::{LONG_TTL, NOISE};
use crate::case::cases;
use crate::context::Context;
use crate::exclusive::{Guard, Lock};
use crate::testbed::Client;
use crate::waits::within;

const MANY: usize = 2 * IN_ONE_STEP;
/// Makes the close longer than a second, which a pause of the machine does not hide. The close has time for
/// round trips of 128 ms; the rest is for a busy machine.
const ROUND_TRIP: Duration = Duration::from_millis(70);
const LOOKS: usize = 16;
const PAUSE: Duration = Duration::from_millis(5);

cases! {
    "LEASE-CLOSE" alone =>
    /// while a client with thousands of holds closes, tries of another client are answered, and the holds are released
    /// in bursts: some locks are free while others are still held; at the end all are free
    async fn lease_close_of_many_holds_blocks_no_client(context) {
        // A backend may send its last requests in sequence.
        let timeout = 3 * NOISE;
        let client = context.client_by(LONG_TTL, |config| config.request_timeout = timeout).await;
        let other = context.client().await;
        let held = hold_many(&client).await;
        let margin = client.coordinator.lease().margin();
        client.link.delay(ROUND_TRIP);
        let began = Instant::now();
        let closing = tokio::spawn({ let client = client.clone(); async move { client.coordinator.close().await } });
        let nobodys = mutex(&other, "free");
        let answered = answered(context);
        let (mut turn, mut worst, mut some_free, mut bursts) = (0, Duration::ZERO, false, false);
        while !closing.is_finished() {
            let asked = Instant::now();
            let mine = within(answered, "a try of a free lock", nobodys.try_acquire()).await.expect("answered");
            release(mine.expect("nobody holds it")).await;
            worst = worst.max(asked.elapsed());
            let free = look(&other, turn * LOOKS, answered).await;
            bursts |= some_free && free < LOOKS;
            some_free |= free > 0;
            turn += 1;
            tokio::time::sleep(PAUSE).await;
        }
        closing.await.expect("no panic").expect("closed");
        let bound = margin + giving_back_bound(MANY, timeout) + context.late();
        assert!(began.elapsed() < bound, "closed after {:?}", began.elapsed());
        eprintln!("{}: a turn of the other client took at most {worst:?}", context.testbed.name());
        assert!(bursts, "no lock was free while others were held: the release was not in bursts");
        assert!(held.iter().all(|guard| !guard.is_held()), "told");
        all_are_free(&other, client.ttl() / 2).await;
    }

    "LEASE-CLOSE" alone =>
    /// without a server, a close with thousands of holds returns after a margin and two request timeouts, as a close
    /// with few holds does; the lease frees all of them
    async fn lease_close_of_many_is_bounded_while_the_server_is_away(context) {
        let (client, other) = (context.mortal().await, context.client().await);
        let held = hold_many(&client).await;
        let bound = client.coordinator.lease().margin() + 2 * context.fixture.config().request_timeout + context.late();
        client.link.cut();
        if let Err(error) = within(bound, "the close", client.coordinator.close()).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        }
        assert!(held.iter().all(|guard| !guard.is_held()), "told");
        all_are_free(&other, context.recovery(&client)).await;
    }
}

async fn hold_many(client: &Client) -> Vec<Guard> {
    acquire_many(client, (0..MANY).map(|number| format!("many-{number}")), LEAVES_AT_ONCE).await
}

fn one_of_many(client: &Client, number: usize) -> Lock {
    mutex(client, &format!("many-{}", number % MANY))
}

/// Less than the stall of the control.
fn answered(context: &Context) -> Duration {
    if context.testbed.is_paused() { NOISE } else { 2 * NOISE }
}

/// Counts the free locks among [`LOOKS`].
async fn look(other: &Client, from: usize, answered: Duration) -> usize {
    let tries = (from..from + LOOKS).map(|number| async move {
        let mine =
            within(answered, "a try", one_of_many(other, number).try_acquire()).await.expect("answered");
        let free = usize::from(mine.is_some());
        release_all(mine).await;
        free
    });
    join_all(tries).await.into_iter().sum()
}

async fn all_are_free(other: &Client, bound: Duration) {
    let takes = (0..MANY).map(|number| async move {
        let mine = within(bound, "the next admission", one_of_many(other, number).acquire()).await;
        mine.expect("admitted").release().await.expect("released");
    });
    stream::iter(takes).buffer_unordered(LEAVES_AT_ONCE).collect::<()>().await;
}
