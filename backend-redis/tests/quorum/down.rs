//! More servers are down than a quorum bears.

use std::time::Instant;

use latchwork_core::{ErrorKind, Result};

use super::clients::{Clients, Links};
use super::{TTL, start};

pub(crate) async fn three_of_five() -> Result<()> {
    let servers = start([false; 2]).await;
    let (links, others) = (Links::to(&servers).await, Links::to(&servers).await);
    let (clients, others) =
        (Clients::connect(&links.urls(&servers)).await, Clients::connect(&others.urls(&servers)).await);
    let lock = clients.lock(true);
    lock.initialize().await?;
    let guard = lock.acquire().await?;
    for server in &servers[..3] {
        server.kill().await.expect("killed");
    }
    let from = Instant::now();
    let ended = guard.lost().await;
    println!("lost after {:.1?}: {ended}", from.elapsed());
    assert!(from.elapsed() <= TTL + TTL / 2, "{:?}", from.elapsed());
    let from = Instant::now();
    let error = lock.acquire_within(TTL).await.expect_err("three are down");
    println!("in vain after {:.1?}: {error}", from.elapsed());
    assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
    assert!(from.elapsed() < TTL + TTL / 2, "{:?}", from.elapsed());
    let from = Instant::now();
    let error = lock.try_acquire().await.expect_err("three are down");
    println!("tried in vain after {:.1?}: {error}", from.elapsed());
    assert_eq!(error.kind(), &ErrorKind::Unavailable, "{error}");
    assert!(from.elapsed() < TTL, "{:?}", from.elapsed());
    for mutex in &others.mutexes()[3..] {
        let held = mutex.acquire_within(TTL / 2).await?;
        assert!(mutex.queue(0, 10).await?.len() == 1 && held.is_held(), "nothing stays held");
    }
    Ok(())
}
