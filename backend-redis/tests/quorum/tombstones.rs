//! What an uncontended quorum leaves behind.

use std::time::Duration;

use latchwork_conformance::proxy::Direction;
use latchwork_core::{Release, Result};
use tokio::time::sleep;

use super::clients::{Clients, Links};
use super::{KEY, start};

/// The tries of the servers that answer after a majority outlive it, and are left by name: else each
/// leaves a tombstone, which keeps the queue out of its short form for minutes.
pub(crate) async fn none_of_late_tries() -> Result<()> {
    let servers = start([false; 2]).await;
    let links = Links::to(&servers).await;
    let clients = Clients::connect(&links.urls(&servers)).await;
    let lock = clients.lock(true);
    lock.initialize().await?;
    // From then on each server is known to count, and a try is one request.
    let guard = lock.acquire().await?;
    while guard.tokens().contains(&None) {
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(guard.release().await?, Release::Released);
    for late in &links.0[3..] {
        late.delay(Direction::ToClient, Duration::from_millis(20));
    }
    for _ in 0..20 {
        // It is released before those have answered.
        let guard = lock.acquire().await?;
        assert_eq!(guard.tokens().iter().flatten().count(), 3);
        assert_eq!(guard.release().await?, Release::Released);
    }
    for (coordinator, server) in clients.0.iter().zip(servers.iter()) {
        coordinator.close().await?;
        let mut operator = redis::Client::open(server.url())
            .expect("a good URL")
            .get_multiplexed_async_connection()
            .await
            .expect("connected");
        let keys = "latchwork:mutex:*";
        let mut keys: Vec<String> =
            redis::cmd("KEYS").arg(keys).query_async(&mut operator).await.expect("answered");
        keys.sort();
        assert_eq!(keys, [format!("latchwork:mutex:{{{KEY}}}:one")], "{}", server.addr());
    }
    Ok(())
}
