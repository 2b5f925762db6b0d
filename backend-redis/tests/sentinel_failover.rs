//! Masters that Sentinels watch are killed and cut off while processes contend, who reach both sides of the cut.
//! In the long tier they also stand still, as replicas and most Sentinels do.
//!
//! Replication is asynchronous: a failover may forget a lock, and then two hold it. These plain
//! overlaps are expected, and are printed. No fence lets two through in turns.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::failover::{self, Failover, Plan, TTL, now};
use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;
use tokio::runtime::Runtime;

/// Sentinels that were silent for 2 s do nothing for the next 30 s (TILT).
const SILENCE: Duration = Duration::from_millis(1500);

/// How the servers fail, one after the other.
#[derive(Clone, Copy)]
enum Failure {
    MasterKilled,
    MasterCutOff,
    MasterSilent,
    ReplicaSilent,
    SentinelsSilent,
}

/// As often as this each in turns: of 30, 20 are masters that are killed or cut off.
const TURNS: [Failure; 9] = [
    Failure::MasterKilled,
    Failure::MasterCutOff,
    Failure::MasterSilent,
    Failure::MasterKilled,
    Failure::MasterCutOff,
    Failure::ReplicaSilent,
    Failure::MasterKilled,
    Failure::MasterKilled,
    Failure::SentinelsSilent,
];

fn main() -> ExitCode {
    if let Some(code) = latchwork_conformance::contender_main(&[latchwork_redis::connector()]) {
        return code;
    }
    let short = [Failure::MasterKilled, Failure::MasterCutOff];
    let plan = Plan::new(&TURNS, &short, Duration::from_secs(30));
    let runtime = Runtime::new().expect("a runtime starts");
    // Less than a TTL: some of what is held when a master is killed goes on at the next one.
    let starting = WatchedRedis::start_cuttable(Duration::from_secs(1));
    let watched = Arc::new(runtime.block_on(starting).expect("servers start"));
    let testbed = watched_redis_testbed(Arc::clone(&watched)).expect("its URL");
    let befall = || plan.carry_out(async |_, failure| failure.befall(&watched).await);
    failover::main(testbed, &runtime, plan.lasts, true, befall)
}

impl Failure {
    async fn befall(self, watched: &WatchedRedis) -> Failover {
        let master = watched.master().await.expect("a master");
        let replica = (master + 1) % watched.servers().len();
        let killed = now();
        let failover = |what| Failover { what, killed, replaced: now() };
        let failover = match self {
            // It comes back as a replica.
            Self::MasterKilled => {
                watched.kill(master).await.expect("killed");
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = failover("master killed");
                watched.launch(master).await.expect("started again");
                failover
            }
            // It serves all the while, and believes in itself until a Sentinel reaches it again.
            Self::MasterCutOff => {
                watched.cut(master);
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = failover("master cut off");
                assert!(watched.leads(master).await, "it was told");
                watched.heal();
                failover
            }
            // It believes in itself when it goes on, until a Sentinel tells it.
            Self::MasterSilent => {
                watched.pause(master).expect("stopped");
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = failover("master silent");
                watched.resume(master).expect("it goes on");
                failover
            }
            Self::ReplicaSilent => {
                watched.pause(replica).expect("stopped");
                tokio::time::sleep(TTL).await;
                watched.resume(replica).expect("it goes on");
                failover("replica silent")
            }
            // A majority of them.
            Self::SentinelsSilent => {
                for sentinel in [0, 1] {
                    watched.pause_sentinel(sentinel).expect("stopped");
                }
                tokio::time::sleep(SILENCE).await;
                for sentinel in [0, 1] {
                    watched.resume_sentinel(sentinel).expect("it goes on");
                }
                failover("most Sentinels silent")
            }
        };
        watched.wait_until_whole().await.expect("whole again");
        failover
    }
}
