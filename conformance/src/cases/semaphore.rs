//! The Semaphore.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use latchwork_core::backend::{Join, Patience};
use latchwork_core::recipes::{Permit, Semaphore};
use latchwork_core::{Claim, ErrorKind, Kind, Limit};
use tokio::sync::mpsc;

use crate::actions::join_of;
use crate::case::cases;
use crate::testbed::Client;
use crate::waits::{all_held, soon, until};

pub(super) fn semaphore(client: &Client, key: &str, limit: u32) -> Semaphore {
    client.coordinator.semaphore(key, limit).expect("a good key and limit")
}

pub(super) async fn permits(semaphore: &Semaphore, weight: u32) -> Permit {
    soon("acquire", semaphore.acquire(weight)).await.expect("acquired")
}

cases! {
    "SEMAPHORE-LIMIT" =>
    /// many tasks on several clients never hold more than the limit, and never a part of a weight
    async fn semaphore_never_exceeds_its_limit(context) {
        const LIMIT: u32 = 3;
        let clients = [context.client().await, context.client().await];
        let taken = Arc::new(AtomicU32::new(0));
        let (held, holds) = mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..8)
            .map(|task| {
                let (semaphore, taken) = (semaphore(&clients[task % 2], "a", LIMIT), Arc::clone(&taken));
                let (weight, held) = (u32::try_from(task).expect("small") % LIMIT + 1, held.clone());
                tokio::spawn(async move {
                    for _ in 0..3 {
                        let permit = semaphore.acquire(weight).await.expect("acquired");
                        assert_eq!(permit.weight(), weight);
                        assert!(taken.fetch_add(weight, Ordering::AcqRel) + weight <= LIMIT, "over the limit");
                        tokio::task::yield_now().await;
                        taken.fetch_sub(weight, Ordering::AcqRel);
                        permit.release().await.expect("released");
                        held.send(()).expect("counted");
                    }
                })
            })
            .collect();
        drop(held);
        all_held(tasks, holds).await;
    }

    "SEMAPHORE-ORDER" =>
    /// with a limit of two, holders A and B and a waiter C: C is admitted whichever of the two
    /// leaves
    async fn semaphore_admits_whoever_leaves(context) {
        let (one, two, three) = (context.client().await, context.client().await, context.client().await);
        for first_leaves in [true, false] {
            let key = if first_leaves { "a" } else { "b" };
            let a = permits(&semaphore(&one, key, 2), 1).await;
            let b = permits(&semaphore(&two, key, 2), 1).await;
            let waiting = semaphore(&three, key, 2);
            assert!(soon("try", waiting.try_acquire(1)).await.expect("answered").is_none());
            let c = tokio::spawn({ let waiting = waiting.clone(); async move { waiting.acquire(1).await } });
            let queued = || async { soon("list", waiting.queue().first(10)).await.expect("listed").len() == 3 };
            until("C stands in the queue", queued).await;
            let (leaves, stays) = if first_leaves { (a, b) } else { (b, a) };
            leaves.release().await.expect("released");
            let c = soon("C", c).await.expect("no panic").expect("admitted");
            assert!(stays.is_held() && c.is_held());
            stays.release().await.expect("released");
            c.release().await.expect("released");
        }
    }

    "SEMAPHORE-CONFLICT" =>
    /// a client with another limit than the stored one gets `Conflict`, and leaves nothing
    async fn semaphore_another_limit_is_a_conflict(context) {
        let (one, other) = (context.client().await, context.client().await);
        let held = permits(&semaphore(&one, "a", 2), 1).await;
        for error in [
            soon("acquire", semaphore(&other, "a", 3).acquire(1)).await.expect_err("another limit"),
            soon("try", semaphore(&other, "a", 3).try_acquire(1)).await.expect_err("another limit"),
        ] {
            assert_eq!((error.kind(), error.key()), (ErrorKind::Conflict, Some("a")), "{error}");
        }
        // A weight that only the server can refuse.
        let queue = context.queue_of(Kind::Semaphore, "a");
        for (limit, patience) in [(Limit::Exactly(2), Patience::Wait), (Limit::Exactly(2), Patience::Try), (Limit::Stored, Patience::Wait), (Limit::Stored, Patience::Try)] {
            let heavy = Join { limit, patience, ..join_of(&queue, Claim::Permits(3)) };
            let error = soon("join", other.coordinator.backend().join(&heavy)).await.expect_err("above the limit");
            assert_eq!(error.kind(), ErrorKind::Conflict, "{limit:?} {patience:?}: {error}");
        }
        let beside = permits(&semaphore(&other, "a", 2), 1).await;
        assert_eq!(soon("list", semaphore(&one, "a", 2).queue().first(10)).await.expect("listed").len(), 2);
        held.release().await.expect("released");
        beside.release().await.expect("released");
        // The limit is stored for good, not only while somebody holds.
        let error = soon("acquire", semaphore(&other, "a", 3).acquire(1)).await.expect_err("another limit");
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }

    "SEMAPHORE-ARGUMENTS" =>
    /// no permits, no weight and a weight above the limit are refused at once, by name
    async fn semaphore_bad_arguments_are_refused(context) {
        let client = context.client().await;
        client.link.cut();
        let error = client.coordinator.semaphore("a", 0).expect_err("no permits");
        assert_eq!(error.argument(), Some("limit"), "{error}");
        let semaphore = semaphore(&client, "a", 2);
        for weight in [0, 3] {
            let error = semaphore.acquire(weight).await.expect_err("refused");
            assert_eq!((error.argument(), error.key()), (Some("weight"), Some("a")), "{error}");
            let error = semaphore.try_acquire(weight).await.expect_err("refused");
            assert_eq!(error.argument(), Some("weight"), "{error}");
        }
        client.link.heal();
    }
}
