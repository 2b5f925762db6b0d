//! Masters that Sentinels watch are killed while processes contend.
//!
//! Replication is asynchronous: a failover may forget a lock, and then two hold it. These plain
//! overlaps are expected, and are printed. No fence lets two through in turns.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::cases::is_long;
use latchwork_conformance::failover::{self, Failover, now, spread};
use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;
use tokio::runtime::Runtime;

fn main() -> ExitCode {
    if let Some(code) = latchwork_conformance::contender_main(&[latchwork_redis::connector()]) {
        return code;
    }
    let (kills, lasts) =
        if is_long() { (20, Duration::from_secs(600)) } else { (2, Duration::from_secs(24)) };
    let runtime = Runtime::new().expect("a runtime starts");
    // Less than a TTL: some of what is held when a master is killed goes on at the next one.
    let starting = WatchedRedis::start_noticing(Duration::from_secs(1));
    let watched = Arc::new(runtime.block_on(starting).expect("servers start"));
    let testbed = watched_redis_testbed(Arc::clone(&watched)).expect("its URL");
    let killing = || kill_masters(&watched, kills, lasts);
    failover::main(testbed, &runtime, lasts, true, killing)
}

/// Kills one master after the other, and starts it again as a replica.
async fn kill_masters(watched: &WatchedRedis, kills: u32, lasts: Duration) -> Vec<Failover> {
    spread(kills, lasts, async |_| {
        let master = watched.master().await.expect("a master");
        let killed = now();
        watched.kill(master).await.expect("killed");
        watched.wait_until_replaced(master).await.expect("another master");
        let failover = Failover { what: "master killed", killed, replaced: now() };
        watched.launch(master).await.expect("started again");
        watched.wait_until_whole().await.expect("whole again");
        failover
    })
    .await
}
