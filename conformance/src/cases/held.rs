//! LEASE-ALIVE in a soak: many holds, drops and cuts.

use std::time::Duration;

use latchwork_core::LeaseState;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::{Instant, sleep};

use crate::actions::acquire_many;
use crate::case::cases;
use crate::context::Context;
use crate::exclusive::Guard;
use crate::testbed::Client;
use crate::waits::lease_state;

const AT_A_TIME: usize = 200;

/// A paused clock advances only while all tasks wait.
const BETWEEN: Duration = Duration::from_millis(100);

cases! {
    "LEASE-ALIVE" alone =>
    /// no hold is lost while many others are dropped at once and the server is silent for less than a third of the TTL
    async fn lease_alive_in_a_soak_of_many_holds(context) {
        soak(context, 300, 100, Duration::from_secs(8)).await;
    }

    "LEASE-ALIVE" alone long =>
    /// none of 10,000 holds is lost in five minutes, while 2,000 others are repeatedly dropped at once, and the link is
    /// cut at random for less than a third of the TTL
    async fn soak_ten_thousand_holds(context) {
        soak(context, 10_000, 2_000, Duration::from_secs(300)).await;
    }
}

async fn soak(context: &Context, holds: usize, dropped: usize, lasts: Duration) {
    let mut chance = StdRng::seed_from_u64(context.seed());
    let client = context.client().await;
    let mut held = acquire_many(&client, (0..holds).map(|number| format!("held-{number}")), AT_A_TIME).await;
    let (began, mut rounds) = (Instant::now(), 0);
    let cutting = cut_at_random(&client, StdRng::seed_from_u64(chance.random()));
    tokio::pin!(cutting);
    while began.elapsed() < lasts {
        held.shuffle(&mut chance);
        let going = held.split_off(holds - dropped);
        let keys: Vec<_> = going.iter().map(|guard| guard.key().to_owned()).collect();
        all_held(&going, rounds);
        drop(going);
        let next_round = async {
            let again = acquire_many(&client, keys, AT_A_TIME).await;
            sleep(BETWEEN).await;
            again
        };
        let again = tokio::select! {
            again = next_round => again,
            never = &mut cutting => match never {},
        };
        all_held(&held, rounds);
        held.extend(again);
        rounds += 1;
    }
    client.link.heal();
    all_held(&held, rounds);
    eprintln!(
        "{}: {rounds} times {dropped} of {holds} holds, in {:?}",
        context.testbed.name(),
        began.elapsed()
    );
}

fn all_held(held: &[Guard], round: usize) {
    let lost: Vec<_> = held.iter().filter_map(|guard| guard.check().err()).collect();
    assert!(lost.is_empty(), "round {round}: {} holds were lost, one of them: {}", lost.len(), lost[0]);
}

/// Never silent for a third of a TTL, and all renewals come before the next cut. ZooKeeper's client pauses
/// before a dial, and may be disconnected for twice the time of a cut.
async fn cut_at_random(client: &Client, mut chance: StdRng) -> std::convert::Infallible {
    let ttl = client.ttl();
    loop {
        sleep(ttl.mul_f64(chance.random_range(0.05..0.4))).await;
        client.link.cut();
        sleep(ttl.mul_f64(chance.random_range(0.01..0.16))).await;
        client.link.heal();
        lease_state(&client.coordinator, ttl, |state| state == LeaseState::Live).await;
    }
}
