//! Masters are killed and cut off while processes contend, which reach both sides of the cut.
//!
//! A failover may forget a lock, because replication is asynchronous, and then two hold it. These overlaps
//! are printed.

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::failover::{self, Failover, Plan, TTL, now};
use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;
use tokio::runtime::Runtime;

use self::Failure::{MasterCutOff, MasterKilled, MasterSilent, ReplicaSilent, SentinelsSilent};

/// Then the Sentinels consider a master dead. Less than a TTL, so that some holds continue at the next
/// master.
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// After 2 s, Sentinels would do nothing for 30 s (TILT).
const SILENCE: Duration = Duration::from_millis(1500);

/// The silence; up to a second until a Sentinel asks for votes; without a majority, twice the failover
/// timeout and up to a second until they vote again; and two seconds until the replica is promoted, and
/// reports it.
const TAKEOVER: Duration = DOWN_AFTER
    .saturating_add(WatchedRedis::FAILOVER_TIMEOUT.saturating_mul(2))
    .saturating_add(Duration::from_secs(4));

const TILT: Duration = Duration::from_secs(30);

#[derive(Clone, Copy)]
enum Failure {
    MasterKilled,
    MasterCutOff,
    MasterSilent,
    ReplicaSilent,
    SentinelsSilent,
}

/// Of 36 failures, 21 kill a master and 6 cut one off.
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
        // The machine may have been stopped since, and the Sentinels with it.
        watched.wait_until_whole().await.expect("whole");
        let master = watched.master().await.expect("a master");
        let replica = (master + 1) % watched.servers().len();
        let tilts = watched.tilts();
        let killed = now();
        let failover = |what| Failover { what, killed, replaced: now(), within: None };
        let takeover = |what, in_tilt| match watched.tilts() > tilts {
            true => Failover { within: Some(TAKEOVER + TILT), ..failover(in_tilt) },
            false => Failover { within: Some(TAKEOVER), ..failover(what) },
        };
        let failover = match self {
            MasterKilled => {
                watched.kill(master).await.expect("killed");
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master killed", "master killed, Sentinels in TILT");
                watched.launch(master).await.expect("started again");
                failover
            }
            // The master serves until a Sentinel reaches it.
            MasterCutOff => {
                watched.cut(master);
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master cut off", "master cut off, Sentinels in TILT");
                assert!(watched.leads(master).await, "the holder was notified");
                watched.heal();
                failover
            }
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
