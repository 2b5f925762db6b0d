//! COUNTER-ADD: a fleet that counts at once, and calls that are polled and then kept.

use std::collections::BTreeSet;
use std::future::Future;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use latchwork_core::{Coordinator, Result};

use crate::bounds::LONG_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::testbed::Client;
use crate::waits::{after_polls, soon};

const CLIENTS: usize = 10;
const HANDLES: usize = 1_000;

async fn fleet(context: &Context) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(context.patient(LONG_TTL).await);
    }
    clients
}

async fn all<T: Ord>(
    clients: &[Client],
    call: impl Fn(Coordinator) -> BoxFuture<'static, Result<T>>,
) -> Vec<T> {
    let calls: Vec<_> =
        (0..HANDLES).map(|number| call(clients[number % CLIENTS].coordinator.clone())).collect();
    let mut answers: Vec<_> =
        join_all(calls).await.into_iter().map(|answer| answer.expect("applied")).collect();
    answers.sort_unstable();
    answers
}

/// Keeps a call after one to three polls, and makes another call, which must end.
async fn beside_a_kept_call<T, F: Future<Output = Result<T>>>(
    client: &Client,
    what: &str,
    call: impl Fn() -> F,
) {
    client.link.delay(Duration::from_millis(4));
    for polls in 1..=3 {
        let mut kept = Box::pin(call());
        let done = after_polls(polls, &mut kept).await;
        soon(what, call()).await.expect("a kept call blocks no other call");
        if done.is_none() {
            soon(what, kept).await.expect("a kept call continues");
        }
    }
    client.link.heal();
}

cases! {
    "COUNTER-ADD" =>
    /// a thousand handles of ten clients add, reserve ids and count down at once: all succeed, and no number comes twice
    async fn counter_add_of_a_fleet_at_once_succeeds(context) {
        let clients = fleet(context).await;
        let sums = all(&clients, |it| Box::pin(async move { it.counter("fleet")?.add(1).await })).await;
        assert!(sums.into_iter().eq(1..=HANDLES as i64), "a sum came twice");
        let ids = all(&clients, |it| {
            Box::pin(async move { it.id_generator("fleet")?.with_block(7)?.next_id().await })
        }).await;
        assert_eq!(ids.into_iter().collect::<BTreeSet<_>>().len(), HANDLES, "an id came twice");
        let count = HANDLES as u32 - 1;
        let left = all(&clients, move |it| {
            Box::pin(async move { it.count_down_latch("fleet", count)?.count_down().await })
        }).await;
        assert!(left.into_iter().eq(std::iter::once(0).chain(0..count)), "a number came twice");
        let of = &clients[0].coordinator;
        assert!(of.counter("fleet").expect("a good key").delete().await.expect("deleted"));
        assert!(of.id_generator("fleet").expect("a good key").delete().await.expect("deleted"));
        let latch = of.count_down_latch("fleet", count).expect("a good key and count");
        assert!(latch.delete().await.expect("deleted"));
    }

    "COUNTER-ADD" =>
    /// a call of a count or a value, or a proclamation, that is polled and then kept blocks no other call
    async fn counter_add_that_is_kept_blocks_no_other(context) {
        let client = context.client().await;
        let of = &client.coordinator;
        let (counter, ids) = (of.counter("kept").expect("a good key"), of.id_generator("kept").expect("a good key"));
        let latch = of.count_down_latch("kept", 99).expect("a good key and count");
        let (value, ids) = (of.shared_value("kept").expect("a good key"), ids.with_block(1).expect("a good size"));
        beside_a_kept_call(&client, "add", || counter.add(1)).await;
        beside_a_kept_call(&client, "next_id", || ids.next_id()).await;
        beside_a_kept_call(&client, "count_down", || latch.count_down()).await;
        beside_a_kept_call(&client, "write", || value.write("it")).await;
        beside_a_kept_call(&client, "delete", || counter.delete()).await;
        let election = of.election("kept").expect("a good key");
        let leader = soon("campaign", election.campaign(b"it")).await.expect("leads");
        beside_a_kept_call(&client, "proclaim", || leader.proclaim(b"again")).await;
        soon("resign", leader.release()).await.expect("resigned");
        assert!(value.delete().await.expect("deleted"));
        assert!(ids.delete().await.expect("deleted") && latch.delete().await.expect("deleted"));
        assert!(!counter.delete().await.expect("asked"));
    }
}
