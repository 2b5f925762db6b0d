use std::time::Duration;

use latchwork_conformance::proxy::{Direction, Proxy};
use latchwork_core::Result;
use latchwork_core::recipes::Mutex;
use tokio::time::sleep;

use super::clients::{Clients, Links};
use super::{KEY, start};
use crate::common::{Operator, says, soon};

/// Longer than a busy machine holds answers back. The clean-up waits for a dropped try for a quarter of a
/// request's time.
const TTL: Duration = Duration::from_secs(30);
const REQUEST: Duration = Duration::from_secs(20);

/// The tries on servers that answer after a majority are left by name: a tombstone would keep the queue
/// unfolded for minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncontended_quorum_leaves_no_tombstone_where_it_did_not_wait_for_the_answer() -> Result<()> {
    let servers = start([false; 2]).await;
    let links = Links::to(&servers).await;
    let clients = Clients::connect_with(&links.urls(&servers), TTL, REQUEST).await;
    let lock = clients.lock(true);
    lock.initialize().await?;
    // Now the client knows that each server counts, and a try is one request.
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
        // These servers have not answered.
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

/// No node of an earlier hold is left, so the answer that the next round holds back belongs to its own try.
async fn all_given_back(mutexes: &[Mutex]) -> Result<()> {
    for mutex in mutexes {
        mutex.acquire().await?.release().await?;
    }
    Ok(())
}
