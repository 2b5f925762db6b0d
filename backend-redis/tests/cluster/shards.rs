use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::keys::{CALM, PROMPT, key_of, lock_at, of, operator};
use crate::common::coordinators::{confirmed, held, mistaken, refused, user, uses};
use crate::common::{Operator, RIGHTS, outlive, own, soon};
use latchwork_conformance::actions::in_turn;
use latchwork_conformance::errors::fails;
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::{Ended, ErrorKind, Kind, LeaseState, LostReason};

async fn locks_of_all(cluster: &ClusteredRedis) -> [String; 3] {
    let mut taken = 0;
    let mut locks = Vec::new();
    for server in 0..3 {
        locks.push(lock_at(cluster, server, &mut taken).await);
    }
    locks.try_into().unwrap()
}

/// Without a replica, a shard is gone until its server is back.
#[tokio::test]
async fn a_lost_shard_loses_its_own_holds_only() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = of(&cluster, "ttl=5s&request_timeout=4s").await;
    let locks = locks_of_all(&cluster).await;
    let mut holds = in_turn(locks.iter().map(async |lock| held(&client, lock).await)).await;
    let (lease, mut taken) = (client.lease(), 100);
    let other = lock_at(&cluster, 2, &mut taken).await;
    // The replica would take over.
    cluster.kill(4).await.unwrap();
    cluster.kill(1).await.unwrap();
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    assert_eq!(soon(holds[1].lost()).await, Ended::Lost(LostReason::Expired));
    // The client has renewed them several times.
    outlive(&lease, 2.0).await;
    assert!(holds[0].is_held() && holds[2].is_held(), "the other shards are healthy");
    uses(&client, &other).await;
    let answer = client.mutex(locks[1].as_str()).unwrap().try_acquire().await;
    fails(answer, ErrorKind::Unavailable, "the shard is lost");
    for hold in [holds.remove(2), holds.remove(0)] {
        soon(hold.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_goes_on_at_the_replica_that_takes_over_and_one_that_it_does_not_know_is_forgotten() {
    let cluster = ClusteredRedis::start(PROMPT).await.unwrap();
    let client = of(&cluster, "ttl=20s").await;
    let locks = locks_of_all(&cluster).await;
    let holds = in_turn(locks.iter().map(async |lock| confirmed(&client, lock, 1).await)).await;
    let replaced = async |server: usize| {
        let master = cluster.wait_until_replaced(&key_of(&locks[server]), server).await.unwrap();
        assert_eq!(master, server + 3);
    };
    cluster.kill(0).await.unwrap();
    replaced(0).await;
    // The replica lacks the writes of the last moment, so the client renews all holds when it reaches the
    // first shard again.
    let mut replica = operator(&cluster, 4).await;
    replica.tell("CONFIG SET replica-read-only no").await;
    replica.tell("FLUSHALL").await;
    cluster.kill(1).await.unwrap();
    replica.tell("FLUSHALL").await;
    replaced(1).await;
    assert_eq!(soon(holds[1].lost()).await, Ended::Lost(LostReason::Forgotten));
    outlive(&client.lease(), 1.0).await;
    assert!(holds[0].is_held() && holds[2].is_held(), "renewed at the replica and at a healthy master");
    for (hold, lock) in holds.iter().zip(&locks) {
        let before = hold.token();
        let _ = soon(hold.release()).await;
        let again = soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap();
        assert!(again.token() > before, "{lock}");
        again.release().await.unwrap();
    }
}

/// The client is on both sides of a partition. The test promotes the replica itself, because an election may
/// outlast the replica's copy of the hold.
#[tokio::test]
async fn only_holds_known_to_the_new_master_survive() {
    let cluster = ClusteredRedis::start_cuttable(CALM).await.unwrap();
    let client = of(&cluster, "ttl=40s&request_timeout=15s&connect_timeout=15s").await;
    let mut taken = 0;
    let (lock, late) = (lock_at(&cluster, 0, &mut taken).await, lock_at(&cluster, 0, &mut taken).await);
    let hold = confirmed(&client, &lock, 1).await;
    cluster.cut(0);
    let too_late = soon(client.mutex(late.as_str()).unwrap().acquire()).await.unwrap();
    take_over(&cluster, 3, &lock).await;
    assert_eq!(cluster.master_seen_by(0, &key_of(&lock)).await.unwrap(), Some(0), "the holder was notified");
    assert_eq!(soon(too_late.lost()).await, Ended::Lost(LostReason::Forgotten));
    hold.check().expect("the replica had the node");
    let again = soon(client.mutex(late.as_str()).unwrap().acquire()).await.unwrap();
    assert!(again.token() > too_late.token(), "the new master has no token that the old master gave last");
    cluster.heal();
    cluster.wait_until_whole().await.unwrap();
    outlive(&client.lease(), 1.0).await;
    for hold in [hold, again] {
        hold.check().expect("the new master renews it");
        soon(hold.release()).await.unwrap();
    }
    soon(client.close()).await.unwrap();
}

/// A new master knows a hold until a TTL after the last renewal that reached it.
#[tokio::test]
async fn a_hold_that_a_master_renews_alone_for_a_ttl_is_forgotten_by_its_replica() {
    let cluster = ClusteredRedis::start_cuttable(Duration::from_secs(60)).await.unwrap();
    let client = of(&cluster, "ttl=12s").await;
    let lock = lock_at(&cluster, 0, &mut 0).await;
    let hold = confirmed(&client, &lock, 1).await;
    cluster.cut(0);
    outlive(&client.lease(), 1.0).await;
    hold.check().expect("the old master renews it");
    take_over(&cluster, 3, &lock).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Forgotten));
    let again = soon(client.mutex(lock).unwrap().acquire()).await.unwrap();
    assert!(again.token() > hold.token());
    again.release().await.unwrap();
}

async fn take_over(cluster: &ClusteredRedis, replica: usize, lock: &str) {
    operator(cluster, replica).await.tell("CLUSTER FAILOVER TAKEOVER").await;
    assert_eq!(cluster.wait_until_replaced(&key_of(lock), 0).await.unwrap(), replica);
}

#[tokio::test]
async fn queues_of_all_shards_are_listed_page_by_page() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = of(&cluster, "ttl=60s").await;
    let _holds = in_turn((0..50).map(async |key| held(&client, &format!("job-{key}")).await)).await;
    let (mut found, mut after) = (BTreeSet::new(), None);
    loop {
        let page = client.list(Kind::Mutex, "job-").unwrap().page(after.as_deref(), 10).await.unwrap();
        found.extend(page.items.iter().map(|listed| listed.address.coded().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 50, "{found:?}");
}

async fn broadcast(cluster: &ClusteredRedis) -> u64 {
    let mut all = 0;
    for server in cluster.servers() {
        let mut operator = Operator::at(&server).await;
        all += operator.counted("CLUSTER INFO", "cluster_stats_messages_publish_sent:").await;
    }
    all
}

#[tokio::test]
async fn a_hand_off_costs_the_bus_one_message_to_each_other_server() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let clients = [of(&cluster, "ttl=60s").await, of(&cluster, "ttl=60s").await];
    let (before, began) = (broadcast(&cluster).await, Instant::now());
    let turns = clients.each_ref().map(|client| {
        let mutex = client.mutex("a").unwrap();
        async move {
            for _ in 0..500 {
                let hold = soon(mutex.acquire()).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                hold.release().await.unwrap();
            }
        }
    });
    futures_util::future::join_all(turns).await;
    let (took, sent) = (began.elapsed(), broadcast(&cluster).await - before);
    println!("1,000 turns in {took:.1?}: {sent} messages on the bus of {} servers", cluster.servers().len());
    assert!(sent > 0 && sent <= 1_000 * 5, "{sent} messages");
}

#[tokio::test]
async fn cluster_mistakes_give_the_errors_in_the_guide() {
    let mut guide =
        Mistakes::of(include_str!("../../../src/guide/connect_errors.md"), "## When a cluster is wrong");
    let single = own(&[]).await;
    let mistake = "the URL has `redis-cluster://`, and the host is not in a cluster";
    let url = format!("redis-cluster://{}", single.addr());
    mistaken(&mut guide, mistake, &url, &[single.addr(), "is not in a Redis Cluster"]).await;
    let mistake = "no server listens at the hosts of the URL";
    let hosts = "127.0.0.1:1,127.0.0.1:2";
    mistaken(&mut guide, mistake, &format!("redis-cluster://{hosts}"), &[hosts, "refused"]).await;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let first = &cluster.servers()[0];
    let mistake = "the URL has `redis://`, and the host is in a cluster";
    mistaken(&mut guide, mistake, &format!("redis://{first}"), &["redis-cluster://"]).await;
    let error = refused("redis-cluster://h/2").await;
    assert_eq!(error.argument(), Some("url"), "{error}");
    for server in cluster.servers() {
        let mut operator = Operator::at(&server).await;
        operator.allow("blind", RIGHTS).await;
        operator.allow("app", &format!("{RIGHTS} +cluster|slots")).await;
    }
    let mistake = "the user may not call `CLUSTER SLOTS`";
    let url = format!("redis-cluster://blind:word@{first}");
    mistaken(&mut guide, mistake, &url, &["forbidden: CLUSTER SLOTS"]).await;
    guide.all_made();
    let client = user(&format!("redis-cluster://app:word@{first}")).await;
    for lock in locks_of_all(&cluster).await {
        uses(&client, &lock).await;
    }
}
