//! The RwLock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use latchwork_core::recipes::{ReadGuard, RwLock, WriteGuard};

use crate::actions::{Waiter, queued, release, release_all};
use crate::case::cases;
use crate::testbed::Client;
use crate::waits::{contend, soon};

pub(super) fn rwlock(client: &Client, key: &str) -> RwLock {
    client.coordinator.rwlock(key).expect("a good key")
}

pub(super) async fn reading(lock: &RwLock, place: usize) -> Waiter<ReadGuard> {
    queued(lock.read(), lock.queue(), place).await
}

pub(super) async fn writing(lock: &RwLock, place: usize) -> Waiter<WriteGuard> {
    queued(lock.write(), lock.queue(), place).await
}

cases! {
    "RWLOCK-ORDER" =>
    /// W R R W R: admitted in order, readers together
    async fn rwlock_admits_in_order_and_readers_together(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let first = soon("write", here.write()).await.expect("acquired");
        let second = reading(&there, 2).await;
        let third = reading(&here, 3).await;
        let fourth = writing(&there, 4).await;
        let fifth = reading(&here, 5).await;
        first.release().await.expect("released");
        let (second, third) = (second.guard().await, third.guard().await);
        assert!(!fourth.is_finished() && !fifth.is_finished(), "a waiter was admitted past a reader or a writer");
        release_all([second, third]).await;
        let fourth = fourth.guard().await;
        assert!(fourth.token() > first.token());
        assert!(!fifth.is_finished(), "a reader was admitted while a writer held");
        fourth.release().await.expect("released");
        release(fifth.guard().await).await;
    }

    "RWLOCK-CANCEL" =>
    /// a writer that gives up in the middle admits the readers after it, together with the holding readers
    async fn rwlock_a_cancelled_writer_lets_readers_in(context) {
        let [one, two] = context.clients().await;
        let (here, there) = (rwlock(&one, "a"), rwlock(&two, "a"));
        let holding = soon("read", here.read()).await.expect("acquired");
        let writer = writing(&there, 2).await;
        let behind = reading(&here, 3).await;
        assert!(soon("try", there.try_read()).await.expect("answered").is_none(), "a try was admitted past a waiting writer");
        assert!(!behind.is_finished(), "a reader was admitted past a waiting writer");
        drop(writer);
        let behind = behind.guard().await;
        assert!(holding.is_held() && behind.is_held());
        assert!(soon("try", there.try_write()).await.expect("answered").is_none());
        let beside = soon("try", there.try_read()).await.expect("answered").expect("no writer is left");
        release_all([holding, behind, beside]).await;
        release(soon("try", there.try_write()).await.expect("answered").expect("free")).await;
    }

    "RWLOCK-EXCLUSION" =>
    /// many readers and writers on several clients: a writer is always alone
    async fn rwlock_writers_are_alone(context) {
        let clients: [_; 2] = context.clients().await;
        let inside = Arc::new(AtomicI32::new(0));
        contend(9, |task, held| {
            let (lock, inside) = (rwlock(&clients[task % 2], "a"), Arc::clone(&inside));
            async move {
                for round in 0..4 {
                    if (task + round) % 3 == 0 {
                        let guard = lock.write().await.expect("acquired");
                        assert_eq!(inside.swap(-1, Ordering::AcqRel), 0, "a writer held while others held");
                        tokio::task::yield_now().await;
                        assert_eq!(inside.swap(0, Ordering::AcqRel), -1, "a writer held while others held");
                        guard.release().await.expect("released");
                    } else {
                        let guard = lock.read().await.expect("acquired");
                        assert!(inside.fetch_add(1, Ordering::AcqRel) >= 0, "a reader was admitted while a writer held");
                        tokio::task::yield_now().await;
                        assert!(inside.fetch_sub(1, Ordering::AcqRel) >= 1, "a reader was admitted while a writer held");
                        guard.release().await.expect("released");
                    }
                    held.send(()).expect("counted");
                }
            }
        })
        .await;
    }
}
