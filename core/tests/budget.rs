//! A task that acquires in a loop lets other tasks run, because every operation uses tokio's cooperative
//! budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use latchwork_core::Owner;

use crate::common::connected;

/// Tokio lets a task do 128 operations in a row, and an acquisition is at least one of them.
const MOST: usize = 130;

/// Returns how often `again` runs before another ready task does.
async fn before_others(mut again: impl AsyncFnMut()) -> usize {
    let ran = Arc::new(AtomicBool::new(false));
    tokio::spawn({
        let ran = Arc::clone(&ran);
        async move { ran.store(true, Ordering::Release) }
    });
    for count in 0..=10 * MOST {
        if ran.load(Ordering::Acquire) {
            return count;
        }
        again().await;
    }
    panic!("nobody else ran");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_and_its_release_let_others_run() {
    let mutex = connected().0.mutex("a").expect("a good key");
    let count = before_others(async || {
        mutex.acquire().await.expect("acquired").release().await.expect("released");
    });
    assert!(count.await <= MOST);
}

#[tokio::test(start_paused = true)]
async fn a_try_that_is_refused_lets_others_run() {
    let mutex = connected().0.mutex("a").expect("a good key");
    let _held = mutex.acquire().await.expect("acquired");
    let count = before_others(async || assert!(mutex.try_acquire().await.expect("answered").is_none()));
    assert!(count.await <= MOST);
}

#[tokio::test(start_paused = true)]
async fn a_reentry_lets_others_run() {
    let (mutex, owner) = (connected().0.mutex("a").expect("a good key"), Owner::new("o"));
    let _held = mutex.acquire().by(&owner).await.expect("acquired");
    let count = before_others(async || {
        let again = mutex.acquire().by(&owner).await.expect("acquired");
        again.release().await.expect("released");
    });
    assert!(count.await <= MOST);
}

#[tokio::test(start_paused = true)]
async fn a_listing_and_a_reading_let_others_run() {
    let client = connected().0;
    let (mutex, semaphore) =
        (client.mutex("a").expect("a good key"), client.semaphore("a", 1).expect("a good key"));
    assert!(before_others(async || drop(mutex.queue().first(1).await.expect("listed"))).await <= MOST);
    assert!(
        before_others(async || assert_eq!(semaphore.stored_limit().await.expect("read"), None)).await <= MOST
    );
}
