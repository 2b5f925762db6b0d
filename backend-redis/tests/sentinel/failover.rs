//! Masters that Sentinels watch are killed and cut off while processes contend. The processes reach
//! both sides of the cut. In the long tier, masters, replicas and most Sentinels are also stopped
//! for a while.
//!
//! Replication is asynchronous: a failover may forget a lock, and then two hold it. These plain
//! overlaps are expected, and are printed. No fence accepts two holders in turns.

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::failover::{self, Failover, Plan, TTL, now};
use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;
use tokio::runtime::Runtime;

use self::Failure::{MasterCutOff, MasterKilled, MasterSilent, ReplicaSilent, SentinelsSilent};

/// After this time of silence the Sentinels consider a master dead. It is less than a TTL, so that
/// some holds of a killed master continue at the next one.
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// Sentinels that were silent for 2 s do nothing for the next 30 s (TILT).
const SILENCE: Duration = Duration::from_millis(1500);

/// The longest time of a takeover: the silence; up to a second until a Sentinel asks for votes; if
/// no Sentinel has a majority, twice the failover timeout and again up to a second until they vote
/// again; and two seconds until the replica is promoted, and reports it.
const TAKEOVER: Duration = DOWN_AFTER
    .saturating_add(WatchedRedis::FAILOVER_TIMEOUT.saturating_mul(2))
    .saturating_add(Duration::from_secs(4));

/// The time during which Sentinels do nothing after they were stopped.
const TILT: Duration = Duration::from_secs(30);

/// How the servers fail, one after another.
#[derive(Clone, Copy)]
enum Failure {
    MasterKilled,
    MasterCutOff,
    MasterSilent,
    ReplicaSilent,
    SentinelsSilent,
}

/// The turns of the failures: of 36 failures, 21 kill a master and 6 cut one off.
const TURNS: [[Failure; 4]; 3] = [
    [MasterKilled, MasterKilled, MasterCutOff, MasterKilled],
    [MasterSilent, MasterKilled, MasterKilled, MasterCutOff],
    [ReplicaSilent, MasterKilled, MasterKilled, SentinelsSilent],
];

#[test]
fn no_fence_lets_two_through_in_turns_while_masters_fail_under_load() {
    let short = [MasterKilled, MasterCutOff];
    let plan = Plan::new(TURNS.as_flattened(), &short, Duration::from_secs(30));
    let runtime = Runtime::new().expect("a runtime starts");
    let starting = WatchedRedis::start_cuttable(DOWN_AFTER);
    let watched = Arc::new(runtime.block_on(starting).expect("servers start"));
    let testbed = watched_redis_testbed(Arc::clone(&watched)).expect("its URL");
    let befall = || plan.carry_out(async |_, failure| failure.befall(&watched).await);
    failover::play(testbed, &runtime, plan.lasts, true, befall).unwrap();
}

impl Failure {
    async fn befall(self, watched: &WatchedRedis) -> Failover {
        // If the machine was stopped since the last failure, the Sentinels were stopped too.
        watched.wait_until_whole().await.expect("whole");
        let master = watched.master().await.expect("a master");
        let replica = (master + 1) % watched.servers().len();
        let tilts = watched.tilts();
        let killed = now();
        let failover = |what| Failover { what, killed, replaced: now(), within: None };
        // If the machine was stopped for two seconds during this, the Sentinels do nothing for
        // thirty seconds.
        let takeover = |what, in_tilt| match watched.tilts() > tilts {
            true => Failover { within: Some(TAKEOVER + TILT), ..failover(in_tilt) },
            false => Failover { within: Some(TAKEOVER), ..failover(what) },
        };
        let failover = match self {
            // The master returns as a replica.
            MasterKilled => {
                watched.kill(master).await.expect("killed");
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master killed", "master killed, Sentinels in TILT");
                watched.launch(master).await.expect("started again");
                failover
            }
            // The master serves all the time, and considers itself the master until a Sentinel
            // reaches it again.
            MasterCutOff => {
                watched.cut(master);
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master cut off", "master cut off, Sentinels in TILT");
                assert!(watched.leads(master).await, "the holder was notified");
                watched.heal();
                failover
            }
            // When the master continues, it considers itself the master until a Sentinel reaches
            // it.
            MasterSilent => {
                watched.pause(master).expect("stopped");
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master silent", "master silent, Sentinels in TILT");
                watched.resume(master).expect("the hold continues");
                failover
            }
            ReplicaSilent => {
                watched.pause(replica).expect("stopped");
                tokio::time::sleep(TTL).await;
                watched.resume(replica).expect("the hold continues");
                failover("replica silent")
            }
            // A majority of the Sentinels.
            SentinelsSilent => {
                for sentinel in [0, 1] {
                    watched.pause_sentinel(sentinel).expect("stopped");
                }
                tokio::time::sleep(SILENCE).await;
                for sentinel in [0, 1] {
                    watched.resume_sentinel(sentinel).expect("the hold continues");
                }
                failover("most Sentinels silent")
            }
        };
        watched.wait_until_whole().await.expect("whole again");
        failover
    }
}
