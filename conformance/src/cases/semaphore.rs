//! The Semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use latchwork_core::backend::{Join, Patience};
use latchwork_core::recipes::{Permit, Semaphore};
use latchwork_core::{Claim, Error, ErrorKind, Kind, Limit};

use crate::actions::{join_of, queued, release_all};
use crate::case::cases;
use crate::errors::{fails, fails_for, refuses};
use crate::testbed::Client;
use crate::waits::{contend, soon};

pub(super) fn semaphore(client: &Client, key: &str, limit: u32) -> Semaphore {
    client.coordinator.semaphore(key, limit).expect("a good key and limit")
}

pub(super) async fn permits(semaphore: &Semaphore, weight: u32) -> Permit {
    soon("acquire", semaphore.acquire(weight)).await.expect("acquired")
}

pub(super) async fn is_conflict(semaphore: &Semaphore, weight: u32, why: &str) -> [Error; 2] {
    let (conflict, key) = (ErrorKind::Conflict, semaphore.key());
    let acquired = fails_for(soon("acquire", semaphore.acquire(weight)).await, conflict, key, why);
    [acquired, fails_for(soon("try", semaphore.try_acquire(weight)).await, conflict, key, why)]
}

cases! {
    "SEMAPHORE-LIMIT" =>
    /// many tasks on several clients never hold more than the limit, and never a part of a weight
    async fn semaphore_never_exceeds_its_limit(context) {
        const LIMIT: u32 = 3;
        let clients: [_; 2] = context.clients().await;
        let taken = Arc::new(AtomicU32::new(0));
        contend(8, |task, held| {
            let (semaphore, taken) = (semaphore(&clients[task % 2], "a", LIMIT), Arc::clone(&taken));
            let weight = u32::try_from(task).expect("small") % LIMIT + 1;
            async move {
                for _ in 0..3 {
                    let permit = semaphore.acquire(weight).await.expect("acquired");
                    assert_eq!(permit.weight(), weight);
                    assert!(taken.fetch_add(weight, Ordering::AcqRel) + weight <= LIMIT, "over the limit");
                    tokio::task::yield_now().await;
                    taken.fetch_sub(weight, Ordering::AcqRel);
                    permit.release().await.expect("released");
                    held.send(()).expect("counted");
                }
            }
        })
        .await;
    }

    "SEMAPHORE-ORDER" =>
    /// with a limit of two, holders A and B and a waiter C: C is admitted after either of the two leaves
    async fn semaphore_admits_whoever_leaves(context) {
        let [one, two, three] = context.clients().await;
        for first_leaves in [true, false] {
            let key = if first_leaves { "a" } else { "b" };
            let a = permits(&semaphore(&one, key, 2), 1).await;
            let b = permits(&semaphore(&two, key, 2), 1).await;
            let waiting = semaphore(&three, key, 2);
            assert!(soon("try", waiting.try_acquire(1)).await.expect("answered").is_none());
            let c = queued(waiting.acquire(1), waiting.queue(), 3).await;
            let (leaves, stays) = if first_leaves { (a, b) } else { (b, a) };
            leaves.release().await.expect("released");
            let c = c.guard().await;
            assert!(stays.is_held() && c.is_held());
            release_all([stays, c]).await;
        }
    }

    "SEMAPHORE-CONFLICT" =>
    /// a client with another limit than the stored one gets `Conflict`, and leaves no node
    async fn semaphore_another_limit_is_a_conflict(context) {
        let [one, other] = context.clients().await;
        let held = permits(&semaphore(&one, "a", 2), 1).await;
        is_conflict(&semaphore(&other, "a", 3), 1, "another limit").await;
        let queue = context.queue_of(Kind::Semaphore, "a");
        for limit in [Limit::Exactly(2), Limit::Stored] {
            for patience in [Patience::Wait, Patience::Try] {
                let heavy = Join { limit, patience, ..join_of(&queue, Claim::Permits(3)) };
                let answer = soon("join", other.coordinator.backend().join(&heavy)).await;
                fails(answer, ErrorKind::Conflict, &format!("{limit:?} {patience:?}: the weight is above the limit"));
            }
        }
        let beside = permits(&semaphore(&other, "a", 2), 1).await;
        assert_eq!(soon("list", semaphore(&one, "a", 2).queue().first(10)).await.expect("listed").len(), 2);
        release_all([held, beside]).await;
        // The limit stays without a holder.
        fails(soon("acquire", semaphore(&other, "a", 3).acquire(1)).await, ErrorKind::Conflict, "another limit");
    }

    "SEMAPHORE-ARGUMENTS" =>
    /// zero permits, a zero weight and a weight above the limit are refused at once, by name
    async fn semaphore_bad_arguments_are_refused(context) {
        let client = context.client().await;
        client.link.cut();
        refuses(client.coordinator.semaphore("a", 0), "limit");
        let semaphore = semaphore(&client, "a", 2);
        for weight in [0, 3] {
            assert_eq!(refuses(semaphore.acquire(weight).await, "weight").key(), Some("a"));
            refuses(semaphore.try_acquire(weight).await, "weight");
        }
        client.link.heal();
    }
}
