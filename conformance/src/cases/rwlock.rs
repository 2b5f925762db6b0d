//! The RwLock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use latchwork_core::recipes::RwLock;
use tokio::sync::mpsc;

use crate::case::cases;
use crate::testbed::Client;
use crate::waits::{all_held, soon, until};

pub(super) fn rwlock(client: &Client, key: &str) -> RwLock {
    client.coordinator.rwlock(key).expect("a good key")
}

pub(super) async fn stands(lock: &RwLock, nodes: usize) {
    let listed = || async { soon("list", lock.queue().first(100)).await.expect("listed").len() == nodes };
    until("it stands in the queue", listed).await;
}

cases! {
    "RWLOCK-ORDER" =>
    /// W R R W R: admitted in order, the readers together
    async fn rwlock_admits_in_order_and_readers_together(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let first = soon("write", here.write()).await.expect("acquired");
        let reads = |lock: &RwLock| tokio::spawn({ let lock = lock.clone(); async move { lock.read().await } });
        let second = reads(&there);
        stands(&here, 2).await;
        let third = reads(&here);
        stands(&here, 3).await;
        let fourth = tokio::spawn({ let lock = there.clone(); async move { lock.write().await } });
        stands(&here, 4).await;
        let fifth = reads(&here);
        stands(&here, 5).await;
        first.release().await.expect("released");
        let second = soon("the readers", second).await.expect("no panic").expect("admitted");
        let third = soon("the readers", third).await.expect("no panic").expect("admitted");
        assert!(!fourth.is_finished() && !fifth.is_finished(), "past a reader, or past a writer");
        second.release().await.expect("released");
        third.release().await.expect("released");
        let fourth = soon("the writer", fourth).await.expect("no panic").expect("admitted");
        assert!(fourth.token() > first.token());
        assert!(!fifth.is_finished(), "a reader beside a writer");
        fourth.release().await.expect("released");
        soon("the last", fifth).await.expect("no panic").expect("admitted").release().await.expect("released");
    }

    "RWLOCK-CANCEL" =>
    /// a writer that gives up in the middle lets the readers behind it in, beside those that hold
    async fn rwlock_a_cancelled_writer_lets_readers_in(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let holding = soon("read", here.read()).await.expect("acquired");
        let writer = tokio::spawn({ let lock = there.clone(); async move { lock.write().await } });
        stands(&here, 2).await;
        let behind = tokio::spawn({ let lock = here.clone(); async move { lock.read().await } });
        stands(&here, 3).await;
        assert!(soon("try", there.try_read()).await.expect("answered").is_none(), "a try past a waiting writer");
        assert!(!behind.is_finished(), "a reader past a waiting writer");
        writer.abort();
        let behind = soon("the reader", behind).await.expect("no panic").expect("admitted");
        assert!(holding.is_held() && behind.is_held());
        assert!(soon("try", there.try_write()).await.expect("answered").is_none());
        let beside = soon("try", there.try_read()).await.expect("answered").expect("no writer is left");
        for guard in [holding, behind, beside] {
            guard.release().await.expect("released");
        }
        let alone = soon("try", there.try_write()).await.expect("answered").expect("free");
        alone.release().await.expect("released");
    }

    "RWLOCK-EXCLUSION" =>
    /// many readers and writers on several clients: a writer is always alone
    async fn rwlock_writers_are_alone(context) {
        let clients = [context.client().await, context.client().await];
        // Readers count up, a writer takes it to -1.
        let inside = Arc::new(AtomicI32::new(0));
        let (held, holds) = mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..9)
            .map(|task| {
                let (lock, inside, held) = (rwlock(&clients[task % 2], "a"), Arc::clone(&inside), held.clone());
                tokio::spawn(async move {
                    for round in 0..4 {
                        if (task + round) % 3 == 0 {
                            let guard = lock.write().await.expect("acquired");
                            assert_eq!(inside.swap(-1, Ordering::AcqRel), 0, "a writer was not alone");
                            tokio::task::yield_now().await;
                            assert_eq!(inside.swap(0, Ordering::AcqRel), -1, "a writer was not alone");
                            guard.release().await.expect("released");
                        } else {
                            let guard = lock.read().await.expect("acquired");
                            assert!(inside.fetch_add(1, Ordering::AcqRel) >= 0, "a reader beside a writer");
                            tokio::task::yield_now().await;
                            assert!(inside.fetch_sub(1, Ordering::AcqRel) >= 1, "a reader beside a writer");
                            guard.release().await.expect("released");
                        }
                        held.send(()).expect("counted");
                    }
                })
            })
            .collect();
        drop(held);
        all_held(tasks, holds).await;
    }
}
