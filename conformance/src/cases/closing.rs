//! LEASE-CLOSE of a client that holds thousands: nobody else waits for all of it.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use latchwork_core::decide::{AT_ONCE, IN_ONE_STEP};
use latchwork_core::{ErrorKind, Hold};
use tokio::time::Instant;

use crate::actions::{acquire, in_time, mutex, try_acquire};
use crate::bounds::NOISE;
use crate::case::cases;
use crate::exclusive::Guard;
use crate::testbed::Client;
use crate::waits::within;

/// So many are held: three times what may end in one step.
const MANY: usize = 3 * IN_ONE_STEP;
/// What a round trip of the closing client takes, so that there is time to look while it closes.
const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Between two tries of the other client.
const PAUSE: Duration = Duration::from_millis(5);

cases! {
    "LEASE-CLOSE" alone =>
    /// while a client closes that holds thousands, the tries of another are answered, and it gives
    /// back in bursts: some locks are free while others are held; in the end all are
    async fn lease_close_of_many_stalls_nobody(context) {
        let (client, other) = (context.client().await, context.client().await);
        let held = hold_many(&client).await;
        let margin = client.coordinator.lease().margin();
        client.link.delay(ROUND_TRIP);
        let closing = tokio::spawn({ let client = client.clone(); async move { client.coordinator.close().await } });
        let free = mutex(&other, "free");
        let (mut number, mut worst, mut freed, mut bursts) = (0, Duration::ZERO, false, false);
        while !closing.is_finished() {
            let asked = Instant::now();
            let mine = within(NOISE, "a try of a free lock", free.try_acquire()).await.expect("answered");
            in_time(mine.expect("nobody holds it").release().await.expect("released"));
            // One of those that are given back now or in the end, and one that was not looked at yet.
            let looked = mutex(&other, &key(number));
            let of_the_closing = within(NOISE, "a try of a held lock", looked.try_acquire()).await.expect("answered");
            worst = worst.max(asked.elapsed());
            bursts |= freed && of_the_closing.is_none();
            if let Some(mine) = of_the_closing {
                freed = true;
                in_time(mine.release().await.expect("released"));
            }
            number += 1;
            tokio::time::sleep(PAUSE).await;
        }
        // A burst after the other, each as long as its round trip, and the last step.
        let bound = margin + 2 * ROUND_TRIP * (MANY / AT_ONCE) as u32 + context.fixture.config().request_timeout;
        within(bound, "the close", closing).await.expect("no panic").expect("closed");
        eprintln!("{}: a turn of the other took {worst:?} at most", context.testbed.name());
        assert!(bursts, "none was free while another was held");
        assert!(held.iter().all(|guard| !guard.is_held()), "told");
        for number in 0..MANY {
            let mine = try_acquire(&mutex(&other, &key(number))).await;
            in_time(mine.expect("given back").release().await.expect("released"));
        }
    }

    "LEASE-CLOSE" alone =>
    /// a close of thousands whose server is away answers a margin and two request timeouts later, as
    /// one of a few does; the lease gives all of them back
    async fn lease_close_of_many_is_bounded_while_the_server_is_away(context) {
        let (client, other) = (context.mortal().await, context.client().await);
        let held = hold_many(&client).await;
        let bound = client.coordinator.lease().margin() + 2 * context.fixture.config().request_timeout + NOISE;
        client.link.cut();
        if let Err(error) = within(bound, "the close", client.coordinator.close()).await {
            assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
        }
        assert!(held.iter().all(|guard| !guard.is_held()), "told");
        for number in [0, MANY / 2, MANY - 1] {
            let next = mutex(&other, &key(number));
            let next = within(context.recovery(&client), "the next admission", next.acquire()).await.expect("admitted");
            in_time(next.release().await.expect("released"));
        }
    }
}

fn key(number: usize) -> String {
    format!("many-{number}")
}

async fn hold_many(client: &Client) -> Vec<Guard> {
    stream::iter(0..MANY)
        .map(|number| async move { acquire(&mutex(client, &key(number))).await })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await
}
