//! LEASE-ALIVE under load: renewals come before other requests.

use tokio::task::JoinSet;

use crate::actions::{acquire, acquire_many, mutex, try_acquire};
use crate::bounds::SHORT_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::exclusive::{Guard, Lock};
use crate::testbed::{Client, Fault};
use crate::waits::soon;

const MANY: usize = 2000;
const MEASURED: usize = 40;
const AT_A_TIME: usize = 100;
/// In TTLs, on the narrow link. A lease whose renewal comes after the requests runs out.
const TAKES: f64 = 1.4;

cases! {
    "LEASE-ALIVE" alone =>
    /// a hold is renewed while more guards are dropped at once than its link can release within a TTL
    async fn lease_alive_while_many_guards_are_dropped(context) {
        let (client, held, many) = holds(context).await;
        drop(many);
        let held = outlives(&client, held).await;
        soon("the release", held.release()).await.expect("released");
    }

    "LEASE-ALIVE" alone =>
    /// a hold is renewed while more guards are released at once than its link can release within a TTL
    async fn lease_alive_while_many_guards_are_released(context) {
        let (client, held, many) = holds(context).await;
        let mut calls = JoinSet::new();
        for guard in many {
            // Some deadlines pass on this link.
            calls.spawn(async move { drop(guard.release().await) });
        }
        let held = outlives(&client, held).await;
        soon("the releases", ended(calls)).await;
        soon("the release", held.release()).await.expect("released");
    }

    "LEASE-ALIVE" alone =>
    /// a hold is renewed while more tries are made at once than its link can send within a TTL
    async fn lease_alive_while_many_tries_run(context) {
        let client = lives(context).await;
        let taken = mutex(&client, "held");
        let held = acquire(&taken).await;
        let bytes = tried(&client, &taken).await;
        narrow(context, &client, bytes);
        let mut calls = JoinSet::new();
        for _ in 0..MANY {
            let taken = taken.clone();
            calls.spawn(async move { assert!(!matches!(taken.try_acquire().await, Ok(Some(_))), "held by two") });
        }
        let held = outlives(&client, held).await;
        soon("the tries", ended(calls)).await;
        soon("the release", held.release()).await.expect("released");
    }
}

async fn lives(context: &Context) -> Client {
    context.client_with(&context.config(2 * SHORT_TTL)).await
}

async fn holds(context: &Context) -> (Client, Guard, Vec<Guard>) {
    let client = lives(context).await;
    let held = acquire(&mutex(&client, "held")).await;
    let keys = (0..MANY + MEASURED).map(|number| format!("many-{number}"));
    let mut many = acquire_many(&client, keys, AT_A_TIME).await;
    let bytes = released(&client, many.split_off(MANY)).await;
    narrow(context, &client, bytes);
    (client, held, many)
}

async fn released(client: &Client, some: Vec<Guard>) -> u64 {
    let (before, count) = (client.link.asked(), some.len() as u64);
    for guard in some {
        soon("a release", guard.release()).await.expect("released");
    }
    (client.link.asked() - before) / count
}

async fn tried(client: &Client, taken: &Lock) -> u64 {
    let before = client.link.asked();
    for _ in 0..MEASURED {
        assert!(try_acquire(taken).await.is_none(), "held by two");
    }
    (client.link.asked() - before) / MEASURED as u64
}

fn narrow(context: &Context, client: &Client, bytes: u64) {
    let all = bytes as f64 * MANY as f64;
    let time = client.ttl().as_secs_f64() * TAKES;
    let is_narrow = client.link.narrow((all / time) as u32);
    assert_eq!(is_narrow, context.can(Fault::Narrow), "Fixture::can must match the fixture");
    if !is_narrow {
        context.leave_out("the fixture cannot limit the bandwidth");
    }
}

/// Without a renewal the lease would be lost.
async fn outlives(client: &Client, held: Guard) -> Guard {
    let survived = tokio::time::timeout(client.ttl(), held.lost()).await;
    assert!(survived.is_err(), "the hold was lost while many requests were sent at once: {survived:?}");
    client.link.heal();
    held
}

async fn ended(mut calls: JoinSet<()>) {
    while let Some(call) = calls.join_next().await {
        call.expect("no panic");
    }
}
