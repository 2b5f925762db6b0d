//! NODE-: an ordered queue of ephemeral entries.

use futures_util::FutureExt;
use latchwork_core::contracts::{Joined, LeaseState, Page};
use latchwork_core::decide::Claim;
use latchwork_core::{Fenced, Hold, Kind, LostReason, Token};

use crate::case::cases;
use crate::kit::{
    NOISE, Scene, acquire, entries, join, listing, mutex, queue_of, queue_up, soon, try_acquire, until,
    within,
};
use crate::testbed::{Client, Fault};

/// Joins and says how: admitted or waiting.
async fn enters(
    client: &Client,
    queue: &latchwork_core::Address,
    claim: Claim,
) -> (bool, std::sync::Arc<dyn latchwork_core::contracts::Node>) {
    match join(client, queue, claim).await {
        Joined::Admitted(node) => (true, node),
        Joined::Waiting(node) => (false, node),
        Joined::Refused => panic!("only a try is refused"),
    }
}

cases! {
    "NODE-ORDER" =>
    /// sequence numbers rise strictly in join order, across clients and across an empty queue
    async fn node_order_rises_in_join_order(scene) {
        let (one, other) = (scene.client().await, scene.client().await);
        let queue = queue_of(scene, Kind::Mutex, "a");
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

    "NODE-TOKEN" =>
    /// tokens rise strictly from holder to holder, across handles, clients and idle times
    async fn node_token_rises_from_holder_to_holder(scene) {
        let clients = [scene.client().await, scene.client().await];
        let mut last = Token::new(0, 0).expect("fits");
        for round in 0..6 {
            let guard = acquire(&mutex(&clients[round % 2], "a")).await;
            assert!(guard.token() > last, "{} after {last}", guard.token());
            assert_eq!(guard.token().epoch(), 0);
            last = guard.token();
            guard.release().await.expect("released");
        }
    }

    "NODE-ADMIT" =>
    /// exclusive: the first is admitted, the others wait, in order
    async fn node_admit_exclusive(scene) {
        let client = scene.client().await;
        let queue = queue_of(scene, Kind::Mutex, "a");
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
    /// shared and exclusive: readers together, behind the nearest earlier writer; a cancelled writer lets the readers in
    async fn node_admit_shared_and_exclusive(scene) {
        let client = scene.client().await;
        let queue = queue_of(scene, Kind::RwLock, "a");
        let (read, reader) = enters(&client, &queue, Claim::Shared).await;
        let (read_too, second) = enters(&client, &queue, Claim::Shared).await;
        let (write, writer) = enters(&client, &queue, Claim::Exclusive).await;
        let (late, behind) = enters(&client, &queue, Claim::Shared).await;
        let (later, last) = enters(&client, &queue, Claim::Shared).await;
        assert_eq!((read, read_too, write, late, later), (true, true, false, false, false));
        reader.leave().await.expect("left");
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
    /// permits: all or none and in order, and the next is admitted whoever leaves
    async fn node_admit_permits(scene) {
        let client = scene.client().await;
        for leaver in 0..2 {
            let queue = queue_of(scene, Kind::Semaphore, &format!("s{leaver}"));
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
            assert!(tokio::time::timeout(NOISE / 5, heavy.admitted()).await.is_err(), "one of its two is free: all or none");
            nodes.remove(0).leave().await.expect("left");
            soon("the heavy one is admitted", heavy.admitted()).await.expect("admitted");
            heavy.leave().await.expect("left");
            soon("the light one is admitted", light.admitted()).await.expect("admitted");
            light.leave().await.expect("left");
        }
    }

    "NODE-ONE-TRIP" alone =>
    /// an uncontended acquire is one request to the server, a release one more
    async fn node_one_trip_each_way(scene) {
        let client = scene.client_with(&scene.config(std::time::Duration::from_secs(60))).await;
        let mutex = mutex(&client, "a");
        if !scene.can(Fault::CountRequests) {
            let error = scene.stage.requests().await.expect_err("what it cannot do it refuses");
            assert!(matches!(error.kind(), latchwork_core::ErrorKind::Unsupported { .. }));
            return;
        }
        // The first pair makes what the key needs, once.
        acquire(&mutex).await.release().await.expect("released");
        let before = scene.stage.requests().await.expect("counted");
        let pairs = 50;
        for _ in 0..pairs {
            acquire(&mutex).await.release().await.expect("released");
        }
        let used = scene.stage.requests().await.expect("counted") - before;
        // ZooKeeper counts the packets of a pipelined trip (create, list, the watch that is not awaited) one by one.
        let most = match client.coordinator.backend().name() {
            "zookeeper" => 4 * pairs,
            _ => 2 * pairs,
        };
        // Renewals and pings fall into the count; at this TTL they are few.
        assert!(used <= most + pairs / 5, "{used} requests for {pairs} pairs, expected {most}");
    }

    "NODE-WAIT" =>
    /// a departure admits the next and nobody else, and a waiter in mid-queue that leaves admits nobody
    async fn node_wait_a_departure_admits_the_next_alone(scene) {
        let (holder, one, two, three) =
            (scene.client().await, scene.client().await, scene.client().await, scene.client().await);
        let guard = acquire(&mutex(&holder, "a")).await;
        let first = queue_up(&mutex(&one, "a"), 2).await;
        let second = queue_up(&mutex(&two, "a"), 3).await;
        let third = queue_up(&mutex(&three, "a"), 4).await;
        drop(second);
        until("the cancelled one is gone", || async { listing(&mutex(&holder, "a")).await.len() == 3 }).await;
        assert!(!first.is_finished() && !third.is_finished(), "admitted beside the holder");
        guard.release().await.expect("released");
        let guard = first.guard().await;
        assert!(!third.is_finished(), "admitted beside the holder");
        guard.release().await.expect("released");
        third.guard().await.release().await.expect("released");
    }

    "NODE-NO-LOST-WAKE" =>
    /// a waiter that was cut off while its turn came learns of it, within its re-check
    async fn node_no_lost_wake(scene) {
        let (holder, waiting) = (scene.client().await, scene.client().await);
        let guard = acquire(&mutex(&holder, "a")).await;
        let waiter = queue_up(&mutex(&waiting, "a"), 2).await;
        waiting.link.cut();
        guard.release().await.expect("released");
        waiting.link.heal();
        let ttl = waiting.coordinator.lease().ttl();
        let guard = within(ttl + NOISE, "the admission", waiter.outcome()).await.expect("admitted");
        guard.release().await.expect("released");
    }

    "NODE-IDEMPOTENT" =>
    /// a join whose reply was lost is sent again and makes one node
    async fn node_idempotent_a_lost_reply_makes_one_node(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let key = "lost-reply-of-a-join";
        let mut dropped = client.link.drop_reply(key);
        let acquiring = tokio::spawn({
            let mutex = mutex(&client, key);
            async move { mutex.acquire().await }
        });
        soon("the reply is dropped", dropped.caught()).await;
        let guard = soon("acquire", acquiring).await.expect("no panic").expect("acquired");
        let nodes = listing(&mutex(&other, key)).await;
        assert_eq!(nodes.len(), 1, "{nodes:?}");
        assert_eq!(nodes[0].sequence, guard.token().sequence());
        assert!(nodes[0].admitted);
        guard.release().await.expect("released");
        assert!(listing(&mutex(&other, key)).await.is_empty(), "the release left a node");
    }

    "NODE-IDEMPOTENT" =>
    /// a join that lands after its attempt was cancelled makes no ghost
    async fn node_idempotent_a_late_join_makes_no_ghost(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let key = "a-late-join";
        let mut parked = client.link.park(key);
        let acquiring = tokio::spawn({
            let mutex = mutex(&client, key);
            async move { mutex.acquire().await }
        });
        soon("the join is caught", parked.caught()).await;
        acquiring.abort();
        let _cancelled = acquiring.await;
        // The clean-up of the cancelled attempt is over when this client can join again.
        let guard = acquire(&mutex(&client, key)).await;
        guard.release().await.expect("released");
        soon("the late join lands", parked.deliver()).await;
        assert!(listing(&mutex(&other, key)).await.is_empty(), "a ghost");
        acquire(&mutex(&other, key)).await.release().await.expect("released");
    }

    "NODE-LEAVE-OWN" =>
    /// a release whose reply was lost is retried, and removes nothing newer
    async fn node_leave_own_and_nothing_newer(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let key = "lost-reply-of-a-leave";
        let guard = acquire(&mutex(&client, key)).await;
        let waiter = queue_up(&mutex(&other, key), 2).await;
        let dropped = client.link.drop_reply(key);
        assert_eq!(soon("release", guard.release()).await.expect("released"), latchwork_core::Release::Released);
        drop(dropped);
        let next = waiter.guard().await;
        assert!(try_acquire(&mutex(&client, key)).await.is_none(), "the retried release removed the newer node");
        assert!(next.is_held());
        assert_eq!(listing(&mutex(&client, key)).await.len(), 1);
        next.release().await.expect("released");
    }

    "NODE-CANCEL" =>
    /// a waiter that is dropped in mid-queue frees its place
    async fn node_cancel_a_dropped_wait_leaves_nothing(scene) {
        let (holder, client) = (scene.client().await, scene.client().await);
        let guard = acquire(&mutex(&holder, "a")).await;
        for _ in 0..5 {
            let waiter = queue_up(&mutex(&client, "a"), 2).await;
            drop(waiter);
            until("its node is gone", || async { listing(&mutex(&holder, "a")).await.len() == 1 }).await;
        }
        guard.release().await.expect("released");
        acquire(&mutex(&client, "a")).await.release().await.expect("released");
    }

    "NODE-CANCEL" =>
    /// after drop(guard) a try by the same client succeeds at once, every time
    async fn node_cancel_drop_then_try_succeeds(scene) {
        let client = scene.client().await;
        let mutex = mutex(&client, "a");
        for round in 0..20 {
            let guard = try_acquire(&mutex).await.unwrap_or_else(|| panic!("round {round}: behind our own node"));
            drop(guard);
        }
    }

    "NODE-CANCEL" =>
    /// acquires dropped at many different instants leave no node and no stuck waiter
    async fn node_cancel_at_any_instant(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        for round in 0..60u32 {
            let mutex = mutex(if round % 2 == 0 { &client } else { &other }, "a");
            let acquiring = mutex.acquire();
            tokio::pin!(acquiring);
            let mut acquired = None;
            // So many polls, then it is dropped.
            for _ in 0..round / 2 {
                if let Some(outcome) = acquiring.as_mut().now_or_never() {
                    acquired = Some(outcome.expect("acquired"));
                    break;
                }
                tokio::task::yield_now().await;
            }
            drop(acquired);
        }
        acquire(&mutex(&other, "a")).await.release().await.expect("released");
    }

    "NODE-DEATH" =>
    /// a dead waiter in mid-queue stands in nobody's way longer than its lease
    async fn node_death_in_mid_queue(scene) {
        let (holder, dead, last) = (scene.client().await, scene.mortal().await, scene.client().await);
        let guard = acquire(&mutex(&holder, "a")).await;
        let doomed = queue_up(&mutex(&dead, "a"), 2).await;
        let waiter = queue_up(&mutex(&last, "a"), 3).await;
        let bound = scene.recovery(&dead);
        dead.coordinator.crash().await;
        guard.release().await.expect("released");
        let next = within(bound, "the admission", waiter.outcome()).await.expect("admitted");
        next.release().await.expect("released");
        drop(doomed);
    }

    "NODE-GONE" =>
    /// a holder whose node is removed from outside hears `Revoked` within one TTL, and its lease may live on
    async fn node_gone_a_holder_hears_it(scene) {
        let (client, other) = (scene.mortal().await, scene.client().await);
        let guard = acquire(&mutex(&client, "a")).await;
        let second = acquire(&mutex(&client, "b")).await;
        remove(scene, "a", guard.token().sequence()).await;
        let ttl = client.coordinator.lease().ttl();
        let lost = within(ttl + NOISE, "the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Revoked);
        assert_eq!(guard.check().expect_err("lost").lost_reason(), Some(LostReason::Revoked));
        assert!(second.is_held(), "only that hold is lost");
        assert_eq!(client.coordinator.lease().state(), LeaseState::Live);
        acquire(&mutex(&other, "a")).await.release().await.expect("released");
        second.release().await.expect("released");
    }

    "NODE-GONE" =>
    /// a waiter whose node is removed from outside hears `Revoked` within one TTL
    async fn node_gone_a_waiter_hears_it(scene) {
        let (holder, client) = (scene.client().await, scene.mortal().await);
        let guard = acquire(&mutex(&holder, "a")).await;
        let waiter = queue_up(&mutex(&client, "a"), 2).await;
        let node = listing(&mutex(&holder, "a")).await[1].sequence;
        remove(scene, "a", node).await;
        let ttl = client.coordinator.lease().ttl();
        let error = within(ttl + NOISE, "the loss", waiter.outcome()).await.expect_err("revoked");
        assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
        guard.release().await.expect("released");
    }

    "NODE-FOREIGN" =>
    /// an entry under the queue that is no node of ours does no harm
    async fn node_foreign_entries_do_no_harm(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let queue = queue_of(scene, Kind::Mutex, "a");
        let guard = acquire(&mutex(&client, "a")).await;
        let planted = scene.stage.plant(&queue).await;
        assert_eq!(planted.is_ok(), scene.can(Fault::Plant), "the testbed says what it can: {planted:?}");
        let waiter = queue_up(&mutex(&other, "a"), 2).await;
        guard.release().await.expect("released");
        let next = waiter.guard().await;
        assert!(try_acquire(&mutex(&client, "a")).await.is_none());
        next.release().await.expect("released");
    }

    "NODE-LIST" =>
    /// holders and waiters are listed in order with label, rule and sequence, page by page
    async fn node_list_in_order_and_paged(scene) {
        let mut config = scene.config(crate::kit::LONG_TTL);
        config.label = Some("an-owner".to_owned());
        let (client, other) = (scene.client_with(&config).await, scene.client().await);
        let guard = acquire(&mutex(&client, "a")).await;
        let first = queue_up(&mutex(&other, "a"), 2).await;
        let second = queue_up(&mutex(&other, "a"), 3).await;
        let all = listing(&mutex(&other, "a")).await;
        assert_eq!(all.iter().map(|entry| entry.admitted).collect::<Vec<_>>(), [true, false, false]);
        assert!(all.is_sorted_by(|a, b| a.sequence < b.sequence), "{all:?}");
        assert_eq!(all[0].sequence, guard.token().sequence());
        assert_eq!((all[0].label.as_str(), all[0].claim), ("an-owner", Claim::Exclusive));
        assert_eq!(all[1].label, other.coordinator.label());
        let queue = queue_of(scene, Kind::Mutex, "a");
        let page = Page { after: all[0].sequence, most: 1 };
        let page = other.coordinator.backend().list(&queue, page).await.expect("listed");
        assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [all[1].sequence]);
        drop((first, second));
        guard.release().await.expect("released");
    }
}

async fn remove(scene: &Scene, key: &str, sequence: u64) {
    let queue = queue_of(scene, Kind::Mutex, key);
    assert!(scene.can(Fault::Remove), "every backend has an outside");
    scene.stage.remove(&queue, sequence).await.expect("removed");
}
