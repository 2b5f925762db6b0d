//! Masters of a cluster are killed while processes contend.
//!
//! Replication is asynchronous: a failover may forget a lock, and then two hold it. These plain
//! overlaps are expected, and are printed. No fence lets two through in turns.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::cases::is_long;
use latchwork_conformance::failover::{self, Failover, now, spread};
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_conformance::testbeds::clustered_redis_testbed;
use tokio::runtime::Runtime;

/// After so much silence a replica takes over.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The masters of these keys are killed in turns: of what is contended for, in any namespace.
const KEYS: [&str; 3] = ["{mutex}", "{rwlock}", "{permits}"];

fn main() -> ExitCode {
    if let Some(code) = latchwork_conformance::contender_main(&[latchwork_redis::connector()]) {
        return code;
    }
    let (kills, lasts) =
        if is_long() { (20, Duration::from_secs(600)) } else { (3, Duration::from_secs(30)) };
    let runtime = Runtime::new().expect("a runtime starts");
    let cluster = Arc::new(runtime.block_on(ClusteredRedis::start(NODE_TIMEOUT)).expect("servers start"));
    let testbed = clustered_redis_testbed(Arc::clone(&cluster)).expect("its URL");
    let killing = || kill_masters(&cluster, kills, lasts);
    failover::main(testbed, &runtime, lasts, true, killing)
}

/// Kills one master after the other, and starts it again as a replica.
async fn kill_masters(cluster: &ClusteredRedis, kills: u32, lasts: Duration) -> Vec<Failover> {
    spread(kills, lasts, async |kill| {
        let key = KEYS[kill as usize % KEYS.len()];
        let master = cluster.master_of(key).await.expect("a master");
        let killed = now();
        cluster.kill(master).await.expect("killed");
        cluster.wait_until_replaced(key, master).await.expect("another master");
        let failover = Failover { what: "master killed", killed, replaced: now() };
        cluster.launch(master).await.expect("started again");
        cluster.wait_until_whole().await.expect("whole again");
        failover
    })
    .await
}
