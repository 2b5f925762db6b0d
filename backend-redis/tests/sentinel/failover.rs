//! Masters that Sentinels watch are killed and cut off while processes contend, who reach both sides of the cut.
//! In the long tier they also stand still, as replicas and most Sentinels do.
//!
//! Replication is asynchronous: a failover may forget a lock, and then two hold it. These plain
//! overlaps are expected, and are printed. No fence lets two through in turns.

use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::failover::{self, Failover, Plan, TTL, now};
use latchwork_conformance::servers::WatchedRedis;
use latchwork_conformance::testbeds::watched_redis_testbed;
use tokio::runtime::Runtime;

use self::Failure::{MasterCutOff, MasterKilled, MasterSilent, ReplicaSilent, SentinelsSilent};

/// After so much silence the Sentinels take a master for dead: less than a TTL, so that some of what is held when
/// one is killed goes on at the next one.
const DOWN_AFTER: Duration = Duration::from_secs(1);

/// Sentinels that were silent for 2 s do nothing for the next 30 s (TILT).
const SILENCE: Duration = Duration::from_millis(1500);

/// What a takeover may need: the silence; up to a second until a Sentinel asks for votes; where none has most of
/// them, twice the failover timeout and again up to a second until they vote anew; and two seconds in which the
/// replica is promoted, and says so.
const TAKEOVER: Duration = DOWN_AFTER
    .saturating_add(WatchedRedis::FAILOVER_TIMEOUT.saturating_mul(2))
    .saturating_add(Duration::from_secs(4));

/// For so long Sentinels that stood still do nothing.
const TILT: Duration = Duration::from_secs(30);

/// How the servers fail, one after the other.
#[derive(Clone, Copy)]
enum Failure {
    MasterKilled,
    MasterCutOff,
    MasterSilent,
    ReplicaSilent,
    SentinelsSilent,
}

/// As often as this each in turns: of 36, 21 are masters that are killed, and 6 that are cut off.
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
        // A machine that stood still since the last failure has made the Sentinels stand still too.
        watched.wait_until_whole().await.expect("whole");
        let master = watched.master().await.expect("a master");
        let replica = (master + 1) % watched.servers().len();
        let tilts = watched.tilts();
        let killed = now();
        let failover = |what| Failover { what, killed, replaced: now(), within: None };
        // A machine that stood still for two seconds meanwhile has made the Sentinels stand still for thirty.
        let takeover = |what, in_tilt| match watched.tilts() > tilts {
            true => Failover { within: Some(TAKEOVER + TILT), ..failover(in_tilt) },
            false => Failover { within: Some(TAKEOVER), ..failover(what) },
        };
        let failover = match self {
            // It comes back as a replica.
            MasterKilled => {
                watched.kill(master).await.expect("killed");
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master killed", "master killed, Sentinels in TILT");
                watched.launch(master).await.expect("started again");
                failover
            }
            // It serves all the while, and believes in itself until a Sentinel reaches it again.
            MasterCutOff => {
                watched.cut(master);
                watched.wait_until_replaced(master).await.expect("another master");
                let failover = takeover("master cut off", "master cut off, Sentinels in TILT");
                assert!(watched.leads(master).await, "the holder was notified");
                watched.heal();
                failover
            }
            // It believes in itself when it goes on, until a Sentinel tells it.
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
            // A majority of them.
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
