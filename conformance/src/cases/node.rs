//! NODE-: a queue of ephemeral entries.

use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::backend::{EntryPage, Leave, QueueEntry};
use latchwork_core::{Claim, Kind, Token};
use tokio::time::Instant;

use crate::actions::{
    acquire, acquire_and_release, admitted, enters, entries, join_of, leave, leave_all, promptly,
    still_waits, tries, waiting,
};
use crate::bounds::QUIET_TTL;
use crate::case::cases;
use crate::context::Context;
use crate::testbed::Fault;
use crate::waits::soon;

cases! {
    "NODE-ORDER" =>
    /// sequence numbers rise strictly in join order, across clients and across an empty queue
    async fn node_order_rises_in_join_order(context) {
        let [one, other] = context.clients().await;
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
            leave_all(&nodes).await;
            assert!(entries(&one, &queue).await.is_empty());
        }
    }

    "NODE-TOKEN" adapted =>
    /// tokens rise strictly from holder to holder, across handles and clients
    async fn node_token_rises_from_holder_to_holder(context) {
        let clients: [_; 2] = context.clients().await;
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
    /// exclusive: the first is admitted, and each other waits for its predecessor; a leave in the middle admits no
    /// waiter, and a refused try leaves no node
    async fn node_admit_exclusive(context) {
        let (one, two) = (context.quiet().await, context.quiet().await);
        let queue = context.queue_of(Kind::Mutex, "a");
        let a = admitted(&one, &queue, Claim::Exclusive).await;
        let b = waiting(&two, &queue, Claim::Exclusive).await;
        let c = waiting(&one, &queue, Claim::Exclusive).await;
        let d = waiting(&two, &queue, Claim::Exclusive).await;
        assert!(tries(&one, &join_of(&queue, Claim::Exclusive)).await.is_none());
        let listed = entries(&one, &queue).await;
        let places: Vec<_> = listed.iter().map(|entry| (entry.sequence, entry.admitted)).collect();
        let expected = [(&a, true), (&b, false), (&c, false), (&d, false)];
        assert_eq!(places, expected.map(|(node, admitted)| (node.state().sequence(), admitted)));
        assert!(listed.iter().all(|entry| entry.label == "conformance"), "{listed:?}");
        assert!(still_waits(&two, &b).await && still_waits(&one, &c).await);
        leave(&c).await;
        assert!(still_waits(&two, &d).await, "others are ahead");
        leave(&a).await;
        promptly(&b).await;
        assert!(still_waits(&two, &d).await, "d is behind b");
        leave(&b).await;
        promptly(&d).await;
        assert!(!matches!(c.admitted().now_or_never(), Some(Ok(()))), "it has left");
        assert_eq!(soon("leave", d.leave()).await.expect("left"), Leave::of(true));
        leave(&d).await;
        assert!(entries(&one, &queue).await.is_empty());
    }

    "NODE-ADMIT" =>
    /// shared and exclusive: readers hold together, after the nearest earlier writer; a cancelled writer admits the
    /// later readers, also during a read
    async fn node_admit_shared_and_exclusive(context) {
        let (client, other) = (context.quiet().await, context.quiet().await);
        let queue = context.queue_of(Kind::RwLock, "a");
        let (reads, writes) = (join_of(&queue, Claim::Shared), join_of(&queue, Claim::Exclusive));
        let reader = admitted(&client, &queue, Claim::Shared).await;
        let second = admitted(&other, &queue, Claim::Shared).await;
        let writer = waiting(&client, &queue, Claim::Exclusive).await;
        let behind = waiting(&other, &queue, Claim::Shared).await;
        let last = waiting(&client, &queue, Claim::Shared).await;
        assert!(tries(&client, &reads).await.is_none(), "a reader was admitted past a waiting writer");
        leave(&second).await;
        assert!(still_waits(&client, &writer).await, "the writer must wait for all readers before it");
        leave(&reader).await;
        promptly(&writer).await;
        assert!(still_waits(&other, &behind).await, "beside a writer");
        leave(&writer).await;
        promptly(&behind).await;
        promptly(&last).await;
        let beside = tries(&other, &reads).await.expect("readers share");
        let (_, cancelled) = enters(&client, &queue, Claim::Exclusive).await;
        let (_, after) = enters(&other, &queue, Claim::Shared).await;
        assert!(still_waits(&other, &after).await, "a reader was admitted past a waiting writer");
        leave(&cancelled).await;
        promptly(&after).await;
        assert!(behind.state().lost().is_none());
        assert!(tries(&client, &writes).await.is_none(), "beside readers");
        leave_all([behind, last, after, beside]).await;
        leave(&tries(&client, &writes).await.expect("all readers have left")).await;
    }

    "NODE-ADMIT" =>
    /// permits: all or none, in order, and the next waiter is admitted after any holder leaves
    async fn node_admit_permits(context) {
        let clients = [context.quiet().await, context.quiet().await];
        for leaver in 0..2 {
            let queue = context.queue_of(Kind::Semaphore, &format!("s{leaver}"));
            let one = join_of(&queue, Claim::Permits(1));
            let mut nodes = Vec::new();
            for (place, expected) in [true, true, false, false].into_iter().enumerate() {
                let (admitted, node) = enters(&clients[place % 2], &queue, Claim::Permits(1)).await;
                assert_eq!(admitted, expected);
                nodes.push(node);
            }
            let [a, b, c, d] = <[_; 4]>::try_from(nodes).expect("four");
            let (leaves, stays) = if leaver == 0 { (a, b) } else { (b, a) };
            leave(&leaves).await;
            promptly(&c).await;
            assert!(still_waits(&clients[1], &d).await, "two of two permits are taken");
            leave(&stays).await;
            promptly(&d).await;
            let listed = entries(&clients[0], &queue).await;
            assert!(listed.len() == 2 && listed.iter().all(|entry| entry.admitted), "{listed:?}");
            let heavy = waiting(&clients[0], &queue, Claim::Permits(2)).await;
            let light = waiting(&clients[1], &queue, Claim::Permits(1)).await;
            leave(&c).await;
            assert!(still_waits(&clients[0], &heavy).await, "the heavy waiter must get all its permits or none");
            assert!(still_waits(&clients[1], &light).await, "a waiter was admitted past the heavy waiter");
            assert!(tries(&clients[1], &one).await.is_none(), "it would overtake");
            leave(&d).await;
            promptly(&heavy).await;
            assert!(still_waits(&clients[1], &light).await, "two of two permits are taken");
            leave(&heavy).await;
            promptly(&light).await;
            assert!(tries(&clients[0], &join_of(&queue, Claim::Permits(2))).await.is_none());
            let beside = tries(&clients[0], &one).await.expect("it fits");
            let weights = |entry: &QueueEntry| (entry.claim, entry.admitted);
            let listed: Vec<_> = entries(&clients[0], &queue).await.iter().map(weights).collect();
            assert_eq!(listed, [(Claim::Permits(1), true); 2]);
            let after = EntryPage::new(light.state().sequence(), 9);
            let page = soon("list", clients[1].coordinator.backend().list(&queue, after)).await.expect("listed");
            assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [beside.state().sequence()]);
            leave_all([light, beside]).await;
            assert!(entries(&clients[0], &queue).await.is_empty());
        }
    }

    "NODE-ONE-TRIP" alone adapted =>
    /// an uncontended acquire is one request to the server, a release one more
    async fn node_one_trip_each_way(context) {
        let client = context.quiet().await;
        let mutex = context.mutex(&client, "a");
        if !counts(context).await {
            return;
        }
        // The first round creates permanent data of the key.
        acquire_and_release(&mutex).await;
        let (before, began) = (context.requests().await, Instant::now());
        let pairs = 50;
        for _ in 0..pairs {
            acquire_and_release(&mutex).await;
        }
        let used = context.requests().await - before;
        let most = match client.coordinator.backend().name() {
            "zookeeper" => 4 * pairs,
            _ => 2 * pairs,
        };
        let most = most + upkeep(2, began.elapsed());
        assert!(used <= most + pairs / 5, "{used} requests for {pairs} pairs, expected {most}");
        assert!(used >= 2 * pairs, "{used} requests for {pairs} pairs: the fixture does not count requests");
    }
}

/// At [`QUIET_TTL`], a lease needs three requests (a renewal of up to a hundred nodes, a ping, a proof of
/// contact) in a sixth of it, the shortest period of all backends.
pub(super) fn upkeep(clients: usize, time: Duration) -> u64 {
    let rounds = (time.as_secs_f64() / (QUIET_TTL / 6).as_secs_f64()).ceil();
    3 * clients as u64 * rounds as u64
}

/// A testbed without a count must refuse.
pub(super) async fn counts(context: &Context) -> bool {
    let counted = context.fixture.requests().await;
    assert_eq!(
        counted.is_ok(),
        context.can(Fault::CountRequests),
        "Fixture::can must match the fixture: {counted:?}"
    );
    if counted.is_err() {
        context.leave_out("the fixture does not count requests");
    }
    counted.is_ok()
}
