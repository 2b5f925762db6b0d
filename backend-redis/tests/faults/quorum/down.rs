use std::time::{Duration, Instant};

use latchwork_core::{ErrorKind, Result};
use tokio::time::sleep;

use super::clients::{Clients, Links};
use super::{TTL, start};
use crate::common::PATIENCE;

/// A lease, or a deadline of that length, with an allowance for a busy machine.
const IN_TIME: Duration = TTL.saturating_add(Duration::from_secs(3));

const LONG_TTL: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_three_of_five_servers_down_it_fails_in_time_and_holds_nothing() -> Result<()> {
    let servers = start([false; 2]).await;
    let (links, others) = (Links::to(&servers).await, Links::to(&servers).await);
    let (clients, others) =
        (Clients::connect(&links.urls(&servers)).await, Clients::connect(&others.urls(&servers)).await);
    let patient = Clients::connect_with(&links.urls(&servers), TTL, PATIENCE).await;
    patient.lock(true).initialize().await?;
    drop(patient);
    let long = Clients::connect_with(&links.urls(&servers), LONG_TTL, TTL / 2).await;
    let lock = clients.lock(true);
    let guard = lock.acquire().await?;
    for server in &servers[..3] {
        server.kill().await.expect("killed");
    }
    let from = Instant::now();
    // Then another majority may have the lock. A busy machine may notify the holder later.
    sleep(TTL.saturating_sub(from.elapsed())).await;
    assert!(!guard.is_held(), "the client counts as holder for longer than its lease");
    let ended = guard.lost().await;
    println!("lost after {:.1?}: {ended}", from.elapsed());
    assert!(from.elapsed() < IN_TIME, "{:?}", from.elapsed());
    let from = Instant::now();
    let error = lock.acquire().within(TTL).await.expect_err("three are down");
    println!("failed after {:.1?}: {error}", from.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(from.elapsed() < IN_TIME, "{:?}", from.elapsed());
    let from = Instant::now();
    let error = lock.try_acquire().await.expect_err("three are down");
    println!("the try failed after {:.1?}: {error}", from.elapsed());
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(from.elapsed() < IN_TIME, "{:?}", from.elapsed());
    long.lock(true).try_acquire().await.expect_err("three are down");
    for mutex in &others.mutexes()[3..] {
        // A failed try releases its nodes.
        let held = mutex.acquire().within(LONG_TTL / 2).await?;
        assert!(mutex.queue().first(10).await?.len() == 1 && held.is_held(), "nothing stays held");
    }
    Ok(())
}
