//! NODE-: an ordered queue of ephemeral entries.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::contracts::{Joined, Node};
use latchwork_core::decide::Claim;
use latchwork_core::{Address, Kind, Token};
use tokio::time::Instant;

use crate::actions::{acquire, entries, join};
use crate::bounds::{NOISE, QUIET_TTL};
use crate::case::cases;
use crate::context::Context;
use crate::testbed::{Client, Fault};
use crate::waits::soon;

/// Joins and says how: admitted or waiting.
async fn enters(client: &Client, queue: &Address, claim: Claim) -> (bool, Arc<dyn Node>) {
    match join(client, queue, claim).await {
        Joined::Admitted(node) => (true, node),
        Joined::Waiting(node) => (false, node),
        Joined::Refused => panic!("only a try is refused"),
    }
}

cases! {
    "NODE-ORDER" =>
    /// sequence numbers rise strictly in join order, across clients and across an empty queue
    async fn node_order_rises_in_join_order(context) {
        let (one, other) = (context.client().await, context.client().await);
        let queue = context.queue_of(Kind::Mutex, "a");
        let mut last = 0;
        for round in 0..3 {
            let mut nodes = Vec::new();
            for client in [&one, &other, &one] {
                let (_, node) = enters(client, &queue, Claim::Exclusive).await;
                let sequence = node.state().sequence();
                assert!(sequence > last, "round {round}: {sequence} after {last}");
                last = sequence;
                nodes.push(node);
            }
            for node in nodes {
                node.leave().await.expect("left");
            }
            assert!(entries(&one, &queue).await.is_empty());
        }
    }

    "NODE-TOKEN" adapted =>
    /// tokens rise strictly from holder to holder, across handles and clients
    async fn node_token_rises_from_holder_to_holder(context) {
        let clients = [context.client().await, context.client().await];
        let mut last = Token::new(0, 0).expect("fits");
        for round in 0..6 {
            let guard = acquire(&context.mutex(&clients[round % 2], "a")).await;
            assert!(guard.token() > last, "{} after {last}", guard.token());
            assert_eq!(guard.token().epoch(), 0);
            last = guard.token();
            guard.release().await.expect("released");
        }
    }

    "NODE-ADMIT" =>
    /// exclusive: the first is admitted, the others wait, in order
    async fn node_admit_exclusive(context) {
        let client = context.client().await;
        let queue = context.queue_of(Kind::Mutex, "a");
        let (first, a) = enters(&client, &queue, Claim::Exclusive).await;
        let (second, b) = enters(&client, &queue, Claim::Exclusive).await;
        let (third, c) = enters(&client, &queue, Claim::Exclusive).await;
        assert_eq!((first, second, third), (true, false, false));
        a.leave().await.expect("left");
        soon("b is admitted", b.admitted()).await.expect("admitted");
        assert!(c.admitted().now_or_never().is_none(), "c is behind b");
        b.leave().await.expect("left");
        soon("c is admitted", c.admitted()).await.expect("admitted");
        c.leave().await.expect("left");
    }

    "NODE-ADMIT" =>
    /// shared and exclusive: readers together, behind the nearest earlier writer; a cancelled
    /// writer lets the readers in
    async fn node_admit_shared_and_exclusive(context) {
        let client = context.client().await;
        let queue = context.queue_of(Kind::RwLock, "a");
        let (read, reader) = enters(&client, &queue, Claim::Shared).await;
        let (read_too, second) = enters(&client, &queue, Claim::Shared).await;
        let (write, writer) = enters(&client, &queue, Claim::Exclusive).await;
        let (late, behind) = enters(&client, &queue, Claim::Shared).await;
        let (later, last) = enters(&client, &queue, Claim::Shared).await;
        assert_eq!((read, read_too, write, late, later), (true, true, false, false, false));
        reader.leave().await.expect("left");
        assert!(writer.admitted().now_or_never().is_none(), "the writer waits for every reader before it");
        second.leave().await.expect("left");
        soon("the writer is admitted", writer.admitted()).await.expect("admitted");
        writer.leave().await.expect("left");
        soon("a reader is admitted", behind.admitted()).await.expect("admitted");
        soon("and the other beside it", last.admitted()).await.expect("admitted");
        let (_, holding) = enters(&client, &queue, Claim::Exclusive).await;
        let (_, after) = enters(&client, &queue, Claim::Shared).await;
        holding.leave().await.expect("a waiting writer is cancelled");
        soon("the reader behind it is admitted", after.admitted()).await.expect("admitted");
        for node in [behind, last, after] {
            node.leave().await.expect("left");
        }
    }

    "NODE-ADMIT" =>
    /// permits: all or none and in order, and the next is admitted whichever leaves
    async fn node_admit_permits(context) {
        let client = context.client().await;
        for leaver in 0..2 {
            let queue = context.queue_of(Kind::Semaphore, &format!("s{leaver}"));
            let mut nodes = Vec::new();
            for expected in [true, true, false, false] {
                let (admitted, node) = enters(&client, &queue, Claim::Permits(1)).await;
                assert_eq!(admitted, expected);
                nodes.push(node);
            }
            nodes.remove(leaver).leave().await.expect("left");
            soon("the head is admitted", nodes[1].admitted()).await.expect("admitted");
            nodes.remove(0).leave().await.expect("left");
            soon("the next is admitted", nodes[1].admitted()).await.expect("admitted");
            let (admitted, heavy) = enters(&client, &queue, Claim::Permits(2)).await;
            assert!(!admitted, "two of two permits are taken");
            let (admitted, light) = enters(&client, &queue, Claim::Permits(1)).await;
            assert!(!admitted, "nobody overtakes");
            nodes.remove(0).leave().await.expect("left");
            let both = futures_util::future::select(heavy.admitted(), light.admitted());
            let early = tokio::time::timeout(NOISE / 5, both).await;
            assert!(early.is_err(), "one permit is free: the heavy one takes all or none, and the light one is behind it");
            nodes.remove(0).leave().await.expect("left");
            soon("the heavy one is admitted", heavy.admitted()).await.expect("admitted");
            heavy.leave().await.expect("left");
            soon("the light one is admitted", light.admitted()).await.expect("admitted");
            light.leave().await.expect("left");
        }
    }

    "NODE-ONE-TRIP" alone adapted =>
    /// an uncontended acquire is one request to the server, a release one more
    async fn node_one_trip_each_way(context) {
        let client = context.client_with(&context.config(QUIET_TTL)).await;
        let mutex = context.mutex(&client, "a");
        if !counts(context).await {
            return;
        }
        // The first pair makes what the key needs, once.
        acquire(&mutex).await.release().await.expect("released");
        let (before, began) = (context.fixture.requests().await.expect("counted"), Instant::now());
        let pairs = 50;
        for _ in 0..pairs {
            acquire(&mutex).await.release().await.expect("released");
        }
        let used = context.fixture.requests().await.expect("counted") - before;
        // ZooKeeper counts the packets of a pipelined trip (create, list, the watch that is not
        // awaited) one by one.
        let most = match client.coordinator.backend().name() {
            "zookeeper" => 4 * pairs,
            _ => 2 * pairs,
        };
        // The upkeep of its lease falls into the count, and of another's that holds beside it.
        let most = most + upkeep(2, began.elapsed());
        assert!(used <= most + pairs / 5, "{used} requests for {pairs} pairs, expected {most}");
        assert!(used >= 2 * pairs, "{used} requests for {pairs} pairs: they are not counted");
    }
}

/// What the leases of so many clients at [`QUIET_TTL`] cost meanwhile at the most, in requests: each is
/// kept alive by three (a renewal of up to a hundred nodes, a ping, a proof of contact) every sixth of
/// its TTL, which is the shortest period of all backends.
pub(super) fn upkeep(clients: usize, time: Duration) -> u64 {
    let rounds = (time.as_secs_f64() / (QUIET_TTL / 6).as_secs_f64()).ceil();
    3 * clients as u64 * rounds as u64
}

/// Whether the testbed counts requests; where it cannot, it must refuse.
pub(super) async fn counts(context: &Context) -> bool {
    let counted = context.fixture.requests().await;
    assert_eq!(
        counted.is_ok(),
        context.can(Fault::CountRequests),
        "the testbed says what it can: {counted:?}"
    );
    if counted.is_err() {
        context.leave_out("not counted");
    }
    counted.is_ok()
}
