use std::sync::Arc;
use std::time::Duration;

use super::through;
use crate::common::{
    address, admitted, alone, backend, config, coordinator, count, is_marked, join, long_key, server,
    settled_watches, soon, stored, stranger, waiting, watches,
};
use futures_util::{StreamExt, TryStreamExt, stream};
use latchwork_conformance::actions::{in_turn, leave_all};
use latchwork_core::Claim::{Exclusive, Permits};
use latchwork_core::backend::{Backend, Close, ExpectedLimit};
use latchwork_core::recipes::Permit;
use latchwork_core::{Config, Coordinator, Ended, Kind, LeaseState, Limit, LostReason, encode};
use tokio::task::JoinSet;

/// The next waiter is then the head, although no sum shows this.
#[tokio::test(flavor = "multi_thread")]
async fn permits_beyond_the_watch_budget_are_marked_when_the_limit_changes() {
    let mut config = config(server().await.addr());
    config.ttl = Duration::from_secs(12);
    let (client, permits, other) = over_budget(&config, 2600).await;
    let operator = other.semaphore("held-2599", Limit::Stored).unwrap();
    operator.set_limit(1).await.unwrap();
    let waits = operator.clone();
    let next = tokio::spawn(async move { waits.acquire(1).await });
    soon(async { while operator.queue().first(9).await.unwrap().len() < 2 {} }).await;
    let data = stranger(server().await.addr()).await;
    let queue = format!("/{}/semaphore/held-2599", config.namespace);
    let marks =
        async || -> Vec<_> { stored(&data, &queue).await.iter().map(|data| is_marked(data)).collect() };
    let marked = soon(async {
        loop {
            let marks = marks().await;
            if marks.contains(&true) {
                break marks;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert_eq!(marked.await, [true, false], "only the holder");
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    assert_eq!(marks().await, [true, false], "only the holder");
    assert!(!next.is_finished());
    operator.set_limit(3).await.unwrap();
    soon(next).await.unwrap().unwrap().release().await.unwrap();
    drop(permits);
    client.close().await.unwrap();
    other.close().await.unwrap();
}

/// Both rounds together need more than the budget.
#[tokio::test(flavor = "multi_thread")]
async fn a_release_gives_its_watch_budget_back() {
    alone(async |own| {
        let config = config(own.addr());
        let client = backend(&config).await;
        let queues: Vec<_> =
            (0..30).map(|number| address(&config, Kind::Semaphore, long_key(number))).collect();
        for queue in &queues {
            client.set_limit(queue, ExpectedLimit::Any, 2).await.unwrap();
        }
        for _ in 0..2 {
            let mut held = Vec::new();
            for queue in &queues {
                held.push(admitted(client.join(&join(queue, Permits(1))).await));
            }
            watches(own, 60).await;
            leave_all(held).await;
            watches(own, 0).await;
        }
        client.close(Close::Orderly).await.unwrap();
    })
    .await;
}

/// Too many watches would cost the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_hold_is_watched_again_after_an_event_only_within_the_budget() {
    alone(async |own| {
        let mut config = config(own.addr());
        // Only watches report in this time.
        config.ttl = Duration::from_secs(60);
        let (client, other) = (backend(&config).await, backend(&config).await);
        let enter = async |backend: &Arc<dyn Backend>, number: usize| {
            let queue = address(&config, Kind::Mutex, long_key(number));
            backend.join(&join(&queue, Exclusive)).await
        };
        let (holds, waits) = (0..60, 60..140);
        let held = in_turn(holds.clone().map(async |number| admitted(enter(&client, number).await))).await;
        watches(own, 60).await;
        let mut waiters = JoinSet::new();
        for number in waits {
            admitted(enter(&other, number).await);
            let node = waiting(enter(&client, number).await);
            waiters.spawn(async move { node.admitted().await });
        }
        let before = settled_watches(own, 140).await;
        let stranger = stranger(own.addr()).await;
        for number in holds {
            let queue = format!("/{}/mutex/{}", config.namespace, encode(&long_key(number)));
            let node = stranger.list_children(&queue).await.unwrap().remove(0);
            stranger.set_data(&format!("{queue}/{node}"), b"changed", None).await.unwrap();
        }
        watches(own, before - 60).await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(count(own, "zk_watch_count").await, before - 60);
        }
        assert!(held.iter().all(|node| node.state().lost().is_none()));
        client.close(Close::Orderly).await.unwrap();
    })
    .await;
}

async fn over_budget(config: &Config, count: usize) -> (Coordinator, Vec<Permit>, Coordinator) {
    let (client, other) = (coordinator(config).await, coordinator(config).await);
    let acquired = (0..count).map(|number| {
        let semaphore = client.semaphore(format!("held-{number}"), 3).unwrap();
        async move { semaphore.acquire(2).await }
    });
    let permits = soon(stream::iter(acquired).buffer_unordered(64).try_collect()).await.unwrap();
    (client, permits, other)
}

mod larger {
    use super::*;

    /// A new connection cannot set more watches again than one message holds.
    #[tokio::test(flavor = "multi_thread")]
    async fn thousands_of_holds_survive_a_cut_that_is_shorter_than_their_lease() {
        alone(async |own| {
            let (proxy, mut config) = through(own.addr()).await;
            config.ttl = Duration::from_secs(20);
            let client = coordinator(&config).await;
            let acquired = (0..6000).map(|number| {
                let mutex = client.mutex(format!("held-{number}")).unwrap();
                async move { mutex.acquire().await }
            });
            let guards: Vec<_> =
                soon(stream::iter(acquired).buffer_unordered(64).try_collect()).await.unwrap();
            settled_watches(own, 1).await;
            let lease = client.lease();
            proxy.cut();
            soon(lease.changed(LeaseState::Live)).await;
            proxy.resume();
            let then = soon(lease.changed(LeaseState::Suspended)).await;
            assert_eq!(then, LeaseState::Live, "the session did not come back");
            assert!(guards.iter().all(|guard| guard.is_held()));
            // A hold without a watch is checked within a TTL (NODE-GONE).
            let last = guards.iter().find(|guard| guard.key() == "held-5999").unwrap();
            let mutex = client.mutex("held-5999").unwrap();
            let sequence = mutex.queue().first(1).await.unwrap()[0].sequence;
            let removed = std::time::Instant::now();
            assert!(mutex.force_release(sequence).await.unwrap());
            assert_eq!(soon(last.lost()).await, Ended::Lost(LostReason::Revoked));
            let bound = config.ttl + Duration::from_secs(5);
            assert!(removed.elapsed() <= bound, "noticed after {:?}", removed.elapsed());
            assert_eq!(guards.iter().filter(|guard| guard.is_held()).count(), 5999);
            client.close().await.unwrap();
        })
        .await;
    }
}
