//! What an uncontended quorum leaves behind.

use std::time::Duration;

use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_core::Result;
use latchwork_core::recipes::Mutex;
use tokio::time::sleep;

use super::clients::{Clients, Links};
use super::{KEY, start};
use crate::common::{Operator, says, soon};

/// Each round holds answers back, on a busy machine for seconds: no lease is lost by that, and no try
/// has no time left. (The clean-up awaits one that was dropped for a quarter of a request's time.)
const TTL: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(20);

/// The tries of the servers that answer after a majority outlive it, and are left by name: else each
/// leaves a tombstone, which keeps the queue out of its short form for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_quorum_leaves_no_tombstone_where_it_did_not_wait_for_the_answer() -> Result<()> {
    let servers = start([false; 2]).await;
    let links = Links::to(&servers).await;
    let clients = Clients::connect_with(&links.urls(&servers), TTL, REQUEST).await;
    let lock = clients.lock(true);
    lock.initialize().await?;
    // From then on each server is known to count, and a try is one request.
    let guard = lock.acquire().await?;
    while guard.sequences().contains(&None) {
        sleep(Duration::from_millis(5)).await;
    }
    guard.release().await?;
    let (late, mutexes) = (&links.0[3..], clients.mutexes());
    for _ in 0..20 {
        all_given_back(&mutexes[3..]).await?;
        late.iter().for_each(|late| late.hold(Direction::ToClient));
        let mut asked: Vec<_> = late.iter().map(|late| late.request(says(&format!("{{{KEY}}}")))).collect();
        let guard = lock.acquire().await?;
        for asked in &mut asked {
            soon(asked.fired()).await.expect("the client asks all servers, and the link works");
        }
        // It is released before those have answered.
        assert_eq!(guard.sequences().iter().flatten().count(), 3);
        guard.release().await?;
        late.iter().for_each(Proxy::resume);
    }
    all_given_back(&mutexes[3..]).await?;
    for (coordinator, server) in clients.coordinators.iter().zip(servers.iter()) {
        coordinator.close().await?;
        let keys = Operator::of(server).await.keys("latchwork:mutex:*").await;
        assert_eq!(keys, [format!("latchwork:mutex:{{{KEY}}}:one")], "{}", server.addr());
    }
    Ok(())
}

/// Waits until nothing of an earlier hold is left on these servers, nor under way to them: an acquisition
/// waits for its client's clean-up and for the nodes before it. What is held back in the next round is
/// its own try then.
async fn all_given_back(mutexes: &[Mutex]) -> Result<()> {
    for mutex in mutexes {
        mutex.acquire().await?.release().await?;
    }
    Ok(())
}
