//! NODE-: an ordered queue of ephemeral entries.

use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::contracts::{Joined, Page};
use latchwork_core::decide::Claim;
use latchwork_core::{Hold, Kind, LostReason, Release, Token};

use crate::case::cases;
use crate::kit::{
    NOISE, QUIET_TTL, Scene, acquire, entries, in_time, is_live, join, listing, queue_of, queue_up, soon,
    try_acquire, until, within,
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

    "NODE-TOKEN" adapted =>
    /// tokens rise strictly from holder to holder, across handles and clients
    async fn node_token_rises_from_holder_to_holder(scene) {
        let clients = [scene.client().await, scene.client().await];
        let mut last = Token::new(0, 0).expect("fits");
        for round in 0..6 {
            let guard = acquire(&scene.mutex(&clients[round % 2], "a")).await;
            assert!(guard.token() > last, "{} after {last}", guard.token());
            assert_eq!(guard.token().epoch(), 0);
            last = guard.token();
            in_time(guard.release().await.expect("released"));
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
    async fn node_one_trip_each_way(scene) {
        let client = scene.client_with(&scene.config(QUIET_TTL)).await;
        let mutex = scene.mutex(&client, "a");
        if !counts(scene).await {
            return;
        }
        // The first pair makes what the key needs, once.
        in_time(acquire(&mutex).await.release().await.expect("released"));
        let before = scene.stage.requests().await.expect("counted");
        let pairs = 50;
        for _ in 0..pairs {
            in_time(acquire(&mutex).await.release().await.expect("released"));
        }
        let used = scene.stage.requests().await.expect("counted") - before;
        // ZooKeeper counts the packets of a pipelined trip (create, list, the watch that is not awaited) one by one.
        let most = match client.coordinator.backend().name() {
            "zookeeper" => 4 * pairs,
            _ => 2 * pairs,
        };
        // Renewals and pings fall into the count; at this TTL they are few.
        assert!(used <= most + pairs / 5, "{used} requests for {pairs} pairs, expected {most}");
        assert!(used >= 2 * pairs, "{used} requests for {pairs} pairs: they are not counted");
    }

    "NODE-WAIT" adapted =>
    /// a hand-off comes by an event: well before the waiter would look again by itself
    async fn node_wait_a_handoff_is_an_event(scene) {
        let config = scene.config(QUIET_TTL);
        let (holder, waiting) = (scene.client_with(&config).await, scene.client_with(&config).await);
        for _ in 0..3 {
            let guard = acquire(&scene.mutex(&holder, "a")).await;
            let waiter = queue_up(&scene.mutex(&waiting, "a"), 2).await;
            in_time(guard.release().await.expect("released"));
            let next = within(QUIET_TTL / 10, "the hand-off", waiter.outcome()).await.expect("admitted");
            in_time(next.release().await.expect("released"));
        }
    }

    "NODE-WAIT" alone adapted =>
    /// what a departure costs does not grow with the number of waiters
    async fn node_wait_a_departure_costs_the_same_behind_few_and_many(scene) {
        if !counts(scene).await {
            return;
        }
        let config = scene.config(QUIET_TTL);
        let (one, other) = (scene.client_with(&config).await, scene.client_with(&config).await);
        let departures = 4;
        let mut costs = Vec::new();
        for (key, waiters) in [("few", 5), ("many", 30)] {
            let guard = acquire(&scene.mutex(&one, key)).await;
            let mut queue = Vec::new();
            for place in 0..waiters {
                queue.push(queue_up(&scene.mutex(if place % 2 == 0 { &other } else { &one }, key), place + 2).await);
            }
            let mut queue = queue.into_iter();
            let before = scene.stage.requests().await.expect("counted");
            in_time(guard.release().await.expect("released"));
            for waiter in queue.by_ref().take(departures - 1) {
                in_time(waiter.guard().await.release().await.expect("released"));
            }
            let last = queue.next().expect("more waiters than departures").guard().await;
            costs.push(scene.stage.requests().await.expect("counted") - before);
            drop(queue);
            in_time(last.release().await.expect("released"));
        }
        // A herd of 25 more at each departure would cost a hundred more; renewals and pings at this TTL a handful.
        let [few, many] = costs[..] else { unreachable!("two queues") };
        let most = few + 6 * departures as u64;
        assert!(many <= most, "{departures} departures cost {few} requests with 5 waiters and {many} with 30");
        assert!(few >= departures as u64, "{few} requests: they are not counted");
    }

    "NODE-WAIT" adapted =>
    /// a departure admits the next and nobody else, and a waiter in mid-queue that leaves admits nobody
    async fn node_wait_a_departure_admits_the_next_alone(scene) {
        let (holder, one, two, three) =
            (scene.client().await, scene.client().await, scene.client().await, scene.client().await);
        let guard = acquire(&scene.mutex(&holder, "a")).await;
        let first = queue_up(&scene.mutex(&one, "a"), 2).await;
        let second = queue_up(&scene.mutex(&two, "a"), 3).await;
        let third = queue_up(&scene.mutex(&three, "a"), 4).await;
        drop(second);
        until("the cancelled one is gone", || async { listing(&scene.mutex(&holder, "a")).await.len() == 3 }).await;
        assert!(!first.is_finished() && !third.is_finished(), "admitted beside the holder");
        in_time(guard.release().await.expect("released"));
        let guard = first.guard().await;
        assert!(!third.is_finished(), "admitted beside the holder");
        in_time(guard.release().await.expect("released"));
        in_time(third.guard().await.release().await.expect("released"));
    }

    "NODE-NO-LOST-WAKE" adapted =>
    /// a waiter that was cut off while its turn came learns of it, within its re-check
    async fn node_no_lost_wake(scene) {
        let (holder, waiting) = (scene.client().await, scene.client().await);
        let guard = acquire(&scene.mutex(&holder, "a")).await;
        let waiter = queue_up(&scene.mutex(&waiting, "a"), 2).await;
        waiting.link.cut();
        in_time(guard.release().await.expect("released"));
        let turn = || async { listing(&scene.mutex(&holder, "a")).await.first().is_some_and(|entry| entry.admitted) };
        until("its turn has come", turn).await;
        // So long that the message was sent, and lost with the connection.
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiter.is_finished(), "admitted without a word from the server");
        waiting.link.heal();
        let ttl = waiting.coordinator.lease().ttl();
        let guard = within(ttl + NOISE, "the admission", waiter.outcome()).await.expect("admitted");
        in_time(guard.release().await.expect("released"));
    }

    "NODE-NO-LOST-WAKE" adapted =>
    /// a wake-up that the server drops delays the waiter until its re-check, not for ever
    async fn node_no_lost_wake_when_it_is_dropped(scene) {
        let (holder, waiting) = (scene.client().await, scene.client().await);
        let guard = acquire(&scene.mutex(&holder, "a")).await;
        let waiter = queue_up(&scene.mutex(&waiting, "a"), 2).await;
        let sequence = listing(&scene.mutex(&holder, "a")).await[1].sequence;
        let dropped = waiting.link.drop_wake(&scene.queue("a"), sequence);
        assert_eq!(dropped, scene.can(Fault::DropWake), "the testbed says what it can");
        if !dropped {
            scene.leave_out("not dropped");
        }
        in_time(guard.release().await.expect("released"));
        let ttl = waiting.coordinator.lease().ttl();
        let asked = tokio::time::Instant::now();
        let next = within(ttl + NOISE, "the admission", waiter.outcome()).await.expect("admitted");
        if dropped && scene.bed.is_paused() {
            assert!(asked.elapsed() > Duration::ZERO, "nothing was dropped");
        }
        in_time(next.release().await.expect("released"));
    }

    "NODE-DEATH" adapted =>
    /// a dead waiter in mid-queue stands in nobody's way longer than its lease
    async fn node_death_in_mid_queue(scene) {
        let (holder, dead, last) = (scene.client().await, scene.mortal().await, scene.client().await);
        let guard = acquire(&scene.mutex(&holder, "a")).await;
        let doomed = queue_up(&scene.mutex(&dead, "a"), 2).await;
        let waiter = queue_up(&scene.mutex(&last, "a"), 3).await;
        let bound = scene.recovery(&dead);
        dead.coordinator.crash().await;
        in_time(guard.release().await.expect("released"));
        let next = within(bound, "the admission", waiter.outcome()).await.expect("admitted");
        in_time(next.release().await.expect("released"));
        drop(doomed);
    }

    "NODE-GONE" adapted =>
    /// a holder whose node is removed from outside hears `Revoked` within one TTL, and its lease may live on
    async fn node_gone_a_holder_hears_it(scene) {
        let (client, other) = (scene.mortal().await, scene.client().await);
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let second = acquire(&scene.mutex(&client, "b")).await;
        remove(scene, "a", guard.token().sequence()).await;
        let ttl = client.coordinator.lease().ttl();
        let lost = within(ttl + NOISE, "the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Revoked);
        assert_eq!(guard.check().expect_err("lost").lost_reason(), Some(LostReason::Revoked));
        assert!(second.is_held(), "only that hold is lost");
        is_live(&client.coordinator).await;
        in_time(acquire(&scene.mutex(&other, "a")).await.release().await.expect("released"));
        in_time(second.release().await.expect("released"));
    }

    "NODE-GONE" adapted =>
    /// a waiter whose node is removed from outside hears `Revoked` within one TTL
    async fn node_gone_a_waiter_hears_it(scene) {
        let (holder, client) = (scene.client().await, scene.mortal().await);
        let guard = acquire(&scene.mutex(&holder, "a")).await;
        let waiter = queue_up(&scene.mutex(&client, "a"), 2).await;
        let node = listing(&scene.mutex(&holder, "a")).await[1].sequence;
        remove(scene, "a", node).await;
        let ttl = client.coordinator.lease().ttl();
        let error = within(ttl + NOISE, "the loss", waiter.outcome()).await.expect_err("revoked");
        assert_eq!(error.lost_reason(), Some(LostReason::Revoked), "{error}");
        in_time(guard.release().await.expect("released"));
    }

    "NODE-GONE" adapted =>
    /// a removal is told at once where that is promised, and within one TTL elsewhere
    async fn node_gone_is_told_as_promptly_as_promised(scene) {
        let client = scene.client().await;
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let ttl = client.coordinator.lease().ttl();
        let bound = match client.coordinator.capabilities().prompt_revocation {
            // Before the first renewal could have told it.
            true => NOISE,
            false => ttl + NOISE,
        };
        remove(scene, "a", guard.token().sequence()).await;
        let lost = within(bound, "the loss", guard.lost()).await;
        assert_eq!(lost.reason(), LostReason::Revoked);
        assert_eq!(guard.release().await.expect("answered"), Release::AlreadyLost(LostReason::Revoked));
    }

    "NODE-FOREIGN" adapted =>
    /// an entry under the queue that is no node of ours does no harm
    async fn node_foreign_entries_do_no_harm(scene) {
        let (client, other) = (scene.client().await, scene.client().await);
        let queue = scene.queue("a");
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let planted = scene.stage.plant(&queue).await;
        assert_eq!(planted.is_ok(), scene.can(Fault::Plant), "the testbed says what it can: {planted:?}");
        if planted.is_err() {
            scene.leave_out("no strangers");
        }
        let waiter = queue_up(&scene.mutex(&other, "a"), 2).await;
        in_time(guard.release().await.expect("released"));
        let next = waiter.guard().await;
        assert!(try_acquire(&scene.mutex(&client, "a")).await.is_none());
        in_time(next.release().await.expect("released"));
    }

    "NODE-LIST" adapted =>
    /// holders and waiters are listed in order with label, rule and sequence, page by page
    async fn node_list_in_order_and_paged(scene) {
        let mut config = scene.config(crate::kit::LONG_TTL);
        config.label = Some("an-owner".to_owned());
        let (client, other) = (scene.client_with(&config).await, scene.client().await);
        let guard = acquire(&scene.mutex(&client, "a")).await;
        let first = queue_up(&scene.mutex(&other, "a"), 2).await;
        let second = queue_up(&scene.mutex(&other, "a"), 3).await;
        let all = listing(&scene.mutex(&other, "a")).await;
        assert_eq!(all.iter().map(|entry| entry.admitted).collect::<Vec<_>>(), [true, false, false]);
        assert!(all.is_sorted_by(|a, b| a.sequence < b.sequence), "{all:?}");
        assert_eq!(all[0].sequence, guard.token().sequence());
        assert_eq!((all[0].label.as_str(), all[0].claim), ("an-owner", scene.adapter.claim()));
        assert_eq!(all[1].label, other.coordinator.label());
        let queue = scene.queue("a");
        let page = Page { after: all[0].sequence, most: 1 };
        let page = other.coordinator.backend().list(&queue, page).await.expect("listed");
        assert_eq!(page.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), [all[1].sequence]);
        drop((first, second));
        in_time(guard.release().await.expect("released"));
    }
}

/// Whether the testbed counts requests; where it cannot, it must refuse.
pub(super) async fn counts(scene: &Scene) -> bool {
    let counted = scene.stage.requests().await;
    assert_eq!(counted.is_ok(), scene.can(Fault::CountRequests), "the testbed says what it can: {counted:?}");
    if counted.is_err() {
        scene.leave_out("not counted");
    }
    counted.is_ok()
}

async fn remove(scene: &Scene, key: &str, sequence: u64) {
    let queue = scene.queue(key);
    assert!(scene.can(Fault::Remove), "every backend has an outside");
    scene.stage.remove(&queue, sequence).await.expect("removed");
}
