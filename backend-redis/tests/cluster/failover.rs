//! Masters of a cluster are killed and cut off while processes contend, which reach both sides of the cut.
//!
//! A failover may forget a lock, because replication is asynchronous, and then two hold it. These overlaps
//! are printed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use latchwork_conformance::failover::{self, Failover, Plan, TTL, now};
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_conformance::testbeds::clustered_redis_testbed;
use tokio::runtime::Runtime;

use self::Failure::{MajorityLost, MasterCutOff, MasterKilled, MasterSilent, ReplicaSilent};

/// A replica then takes over.
const NODE_TIMEOUT: Duration = Duration::from_millis(1500);

/// The silence, which a majority notices within the same time again; up to a second until a replica asks for
/// votes; without a majority, four times the silence and up to a second until it asks again.
const TAKEOVER: Duration = NODE_TIMEOUT.saturating_mul(6).saturating_add(Duration::from_secs(2));

const KEYS: [&str; 3] = ["{mutex}", "{rwlock}", "{permits}"];

const OUTAGE: Duration = Duration::from_secs(2);

#[derive(Clone, Copy)]
enum Failure {
    MasterKilled,
    MasterCutOff,
    MasterSilent,
    ReplicaSilent,
    MajorityLost,
}

/// Of 36 failures, 21 kill a master and 6 cut one off.
const TURNS: [[Failure; 4]; 3] = [
    [MasterKilled, MasterKilled, MasterCutOff, MasterKilled],
    [MasterSilent, MasterKilled, MasterKilled, MasterCutOff],
    [ReplicaSilent, MasterKilled, MasterKilled, MajorityLost],
];

#[test]
fn no_fence_lets_two_through_in_turns_while_masters_fail_under_load() {
    let short = [MasterKilled, MasterCutOff, MasterKilled];
    let plan = Plan::new(TURNS.as_flattened(), &short, Duration::from_secs(30));
    let runtime = Runtime::new().expect("a runtime starts");
    let cluster =
        Arc::new(runtime.block_on(ClusteredRedis::start_cuttable(NODE_TIMEOUT)).expect("servers start"));
    let testbed = clustered_redis_testbed(Arc::clone(&cluster)).expect("its URL");
    let befall = || {
        plan.carry_out(async |number, failure| {
            let first = number + number / TURNS.as_flattened().len();
            let [key, other] = [0, 1].map(|next| KEYS[(first + next) % KEYS.len()]);
            failure.befall(&cluster, key, other).await
        })
    };
    failover::play(testbed, &runtime, plan.lasts, true, befall).unwrap();
}

impl Failure {
    async fn befall(self, cluster: &ClusteredRedis, key: &str, other: &str) -> Failover {
        let master = cluster.master_of(key).await.expect("a master");
        let killed = now();
        let within = match self {
            ReplicaSilent => None,
            MajorityLost => Some(OUTAGE + TAKEOVER),
            _ => Some(TAKEOVER),
        };
        let failover = |what| Failover { what, killed, replaced: now(), within };
        let failover = match self {
            MasterKilled => {
                cluster.kill(master).await.expect("killed");
                cluster.wait_until_replaced(key, master).await.expect("another master");
                let failover = failover("master killed");
                cluster.launch(master).await.expect("started again");
                failover
            }
            // It serves until it notices the cut, and then refuses requests until it is a replica.
            MasterCutOff => {
                cluster.cut(master);
                cluster.wait_until_replaced(key, master).await.expect("another master");
                let failover = failover("master cut off");
                let sees = cluster.master_seen_by(master, key).await.expect("it answers");
                assert_eq!(sees, Some(master), "the holder was notified");
                cluster.heal();
                failover
            }
            MasterSilent => {
                cluster.pause(master).await.expect("stopped");
                cluster.wait_until_replaced(key, master).await.expect("another master");
                let failover = failover("master silent");
                cluster.resume(master).expect("the hold continues");
                failover
            }
            ReplicaSilent => {
                let servers = cluster.servers().len();
                let replica = (master + servers / 2) % servers;
                cluster.pause(replica).await.expect("stopped");
                tokio::time::sleep(TTL).await;
                cluster.resume(replica).expect("the hold continues");
                failover("replica silent")
            }
            MajorityLost => {
                let other = cluster.master_of(other).await.expect("a master");
                for master in BTreeSet::from([master, other]) {
                    cluster.kill(master).await.expect("killed");
                }
                tokio::time::sleep(OUTAGE).await;
                for master in BTreeSet::from([master, other]) {
                    cluster.launch(master).await.expect("started again");
                }
                cluster.wait_until_whole().await.expect("whole again");
                failover("most masters lost and back")
            }
        };
        cluster.wait_until_whole().await.expect("whole again");
        failover
    }
}
