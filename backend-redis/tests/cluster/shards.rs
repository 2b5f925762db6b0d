//! A Redis Cluster: slots that move, shards that are lost, masters that are replaced.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::keys::{key_of, lock_at, migrate, settled, write_leased};
use crate::common::coordinators::{at, said};
use crate::common::{Operator, PATIENCE, connect, own, queue, soon};
use latchwork_conformance::mistakes::Mistakes;
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::backend::Close;
use latchwork_core::{Coordinator, Ended, ErrorKind, Kind, LeaseState, LostReason};

/// No master is replaced by itself, however busy the machine is.
const CALM: Duration = Duration::from_secs(10);
/// After so much silence a replica takes over.
const PROMPT: Duration = Duration::from_millis(1500);

async fn user(cluster: &ClusteredRedis, options: &str) -> Coordinator {
    at(&format!("{}?{options}", cluster.url())).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn locks_of_all(cluster: &ClusteredRedis) -> [String; 3] {
    let mut taken = 0;
    let mut locks = Vec::new();
    for server in 0..3 {
        locks.push(lock_at(cluster, server, &mut taken).await);
    }
    locks.try_into().unwrap()
}

/// Keys are contended for while their slots move from server to server: in the long tier 64, each several times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hold_is_lost_while_the_slots_of_contended_keys_move() {
    const KEYS: usize = 64;
    let long = latchwork_conformance::cases::is_long();
    let keys = if long { KEYS } else { KEYS / 4 };
    let cluster = Arc::new(ClusteredRedis::start(CALM).await.unwrap());
    let clients = [user(&cluster, "ttl=6s").await, user(&cluster, "ttl=6s").await];
    let over = Arc::new(AtomicBool::new(false));
    let [inside, grants] = [(); 2].map(|()| Arc::new([const { AtomicUsize::new(0) }; KEYS]));
    let mut tasks = Vec::new();
    for key in 0..keys {
        for client in &clients {
            let mutex = client.mutex(format!("lock-{key}")).unwrap();
            let (over, inside, grants) = (Arc::clone(&over), Arc::clone(&inside), Arc::clone(&grants));
            tasks.push(tokio::spawn(async move {
                while !over.load(Ordering::Acquire) {
                    let hold = match mutex.acquire().within(PATIENCE).await {
                        Ok(hold) => hold,
                        // A slot that is being moved.
                        Err(error) if error.may_pass() => continue,
                        Err(error) => panic!("{error}"),
                    };
                    assert_eq!(inside[key].fetch_add(1, Ordering::AcqRel), 0, "two hold lock-{key}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    assert!(hold.is_held(), "lock-{key} was lost");
                    inside[key].fetch_sub(1, Ordering::AcqRel);
                    grants[key].fetch_add(1, Ordering::AcqRel);
                    match hold.release().await {
                        Ok(()) => {}
                        Err(error) => {
                            assert!(error.may_pass(), "{error}")
                        }
                    }
                }
            }));
        }
    }
    // Beside them holds that stand all the time, and are renewed wherever they are.
    let mut standing = Vec::new();
    for key in 0..keys {
        standing.push(soon(clients[0].mutex(format!("standing-{key}")).unwrap().acquire()).await.unwrap());
    }
    // Of each slot, its master.
    let mut owners = BTreeMap::new();
    for lock in (0..keys).flat_map(|key| [format!("lock-{key}"), format!("standing-{key}")]) {
        let key = key_of(&lock);
        owners.insert(cluster.slot(&key).await.unwrap(), cluster.master_of(&key).await.unwrap());
    }
    let rounds = if long { 10 } else { 1 };
    let (began, mut moves) = (Instant::now(), 0);
    for _ in 0..rounds {
        for (slot, owner) in &mut owners {
            let from = std::mem::replace(owner, (*owner + 1) % 3);
            cluster.move_slot(*slot, from, *owner).await.unwrap();
            moves += 1;
        }
    }
    let took = began.elapsed();
    // Each of them is acquired again once its slot has arrived.
    for key in 0..keys {
        let before = grants[key].load(Ordering::Acquire);
        soon(async {
            while grants[key].load(Ordering::Acquire) == before {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await;
    }
    let lease = clients[0].lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    over.store(true, Ordering::Release);
    for task in tasks {
        soon(task).await.unwrap();
    }
    for hold in standing {
        hold.check().expect("its shard kept it");
        soon(hold.release()).await.unwrap();
    }
    println!(
        "{moves} slots moved in {took:.1?}, {} grants meanwhile, no hold lost",
        grants.iter().map(|grants| grants.load(Ordering::Acquire)).sum::<usize>()
    );
    for client in clients {
        soon(client.close()).await.unwrap();
    }
}

/// The old master answers ASK for keys that are not there. A script of one key is carried out at the new one
/// at once; a lock's script names several, and waits there (TRYAGAIN) until the slot has arrived.
#[tokio::test]
async fn what_is_not_there_yet_in_a_slot_on_its_way_is_asked_for_at_its_new_server() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = user(&cluster, "ttl=30s&request_timeout=10s").await;
    let key = lock_at(&cluster, 0, &mut 0).await;
    let slot = cluster.slot(&key_of(&key)).await.unwrap();
    let mut old = Operator::at(&format!("redis://{}", cluster.servers()[0])).await;
    let mut new = Operator::at(&format!("redis://{}", cluster.servers()[1])).await;
    let stored = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    cluster.begin_move(slot, 0, 1).await.unwrap();

    let before = new.calls("asking").await;
    let counter = client.counter(key.as_str()).unwrap();
    assert_eq!(soon(counter.add(1)).await.unwrap(), 1);
    let asked = new.calls("asking").await;
    assert!(asked > before, "no request went to the new server behind ASKING");
    assert_eq!((old.say::<u64>(&stored).await, new.say::<u64>(&stored).await), (0, 1));

    let mutex = client.mutex(key.as_str()).unwrap();
    let acquiring = tokio::spawn(async move { mutex.acquire().await });
    soon(async {
        while new.calls("asking").await == asked {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert!(!acquiring.is_finished(), "a lock's keys cannot be made on either side");
    cluster.move_slot(slot, 0, 1).await.unwrap();
    let hold = soon(acquiring).await.unwrap().unwrap();
    assert!(hold.is_held());
    soon(hold.release()).await.unwrap();
    assert_eq!(soon(counter.add(1)).await.unwrap(), 2);
    soon(client.close()).await.unwrap();
}

/// A lock's script names keys that are not there, so its renewal is not carried out while its slot is on its way.
#[tokio::test]
async fn a_slot_that_stands_open_for_long_costs_no_other_hold() {
    const LOCKS: usize = 300;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = user(&cluster, "ttl=6s").await;
    let (mut taken, mut holds, mut first) = (0, Vec::new(), None);
    for _ in 0..LOCKS {
        let lock = lock_at(&cluster, 0, &mut taken).await;
        holds.push(soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap());
        first.get_or_insert(lock);
    }
    let slot = cluster.slot(&key_of(&first.unwrap())).await.unwrap();
    cluster.begin_move(slot, 0, 1).await.unwrap();
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 2).await;
    assert!(!holds[0].is_held(), "its slot stands open: {:?}", holds[0].state());
    let lost = holds[1..].iter().filter(|hold| !hold.is_held()).count();
    assert_eq!(lost, 0, "of {LOCKS} holds on a server that answers");
    cluster.move_slot(slot, 0, 1).await.unwrap();
    drop(holds);
    soon(client.close()).await.unwrap();
}

/// Of two cells in one slot one has gone to the new server, and no script that names both is carried out.
#[tokio::test]
async fn a_slot_that_stands_open_for_long_costs_no_cell() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let writes = connect(&format!("{}?ttl=5s&request_timeout=4s", cluster.url())).await.unwrap();
    let reads = connect(&format!("{}?ttl=30s", cluster.url())).await.unwrap();
    let (mut taken, mut keys) = (0, Vec::new());
    for _ in 0..8 {
        keys.push(lock_at(&cluster, 0, &mut taken).await);
    }
    let of_key = |key: &String| [Kind::Value, Kind::Counter].map(|kind| queue(kind, key));
    let cells: Vec<_> = keys.iter().flat_map(of_key).collect();
    for cell in &cells {
        write_leased(&writes, cell).await;
    }
    let slot = cluster.slot(&key_of(&keys[0])).await.unwrap();
    cluster.begin_move(slot, 0, 1).await.unwrap();
    let mut old = Operator::at(&format!("redis://{}", cluster.servers()[0])).await;
    migrate(&mut old, &cluster.servers()[1], &cells[0]).await;
    let lease = writes.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 3).await;
    for cell in &cells {
        assert!(soon(reads.read_cell(cell)).await.unwrap().is_some(), "{cell:?} has run out");
    }
    settled(&writes).await;
    cluster.move_slot(slot, 0, 1).await.unwrap();
    for client in [writes, reads] {
        soon(client.close(Close::Orderly)).await.unwrap();
    }
}

/// Without a replica to take over, a shard is gone until its server is back.
#[tokio::test]
async fn a_lost_shard_loses_its_own_holds_only() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = user(&cluster, "ttl=5s&request_timeout=4s").await;
    let locks = locks_of_all(&cluster).await;
    let mut holds = Vec::new();
    for lock in &locks {
        holds.push(soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap());
    }
    let (lease, mut taken) = (client.lease(), 100);
    let other = lock_at(&cluster, 2, &mut taken).await;
    // Its replica would take over before the end.
    cluster.kill(4).await.unwrap();
    cluster.kill(1).await.unwrap();
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    assert_eq!(soon(holds[1].lost()).await, Ended::Lost(LostReason::Expired));
    // Renewed several times since.
    lease.clock().sleep_until(lease.clock().now() + lease.ttl() * 2).await;
    assert!(holds[0].is_held() && holds[2].is_held(), "the other shards are well");
    soon(client.mutex(other).unwrap().acquire()).await.unwrap().release().await.unwrap();
    let error = client.mutex(locks[1].as_str()).unwrap().try_acquire().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    for hold in [holds.remove(2), holds.remove(0)] {
        soon(hold.release()).await.unwrap();
    }
}

#[tokio::test]
async fn a_hold_goes_on_at_the_replica_that_takes_over_and_one_that_it_does_not_know_is_forgotten() {
    let cluster = ClusteredRedis::start(PROMPT).await.unwrap();
    let client = user(&cluster, "ttl=20s").await;
    let locks = locks_of_all(&cluster).await;
    let mut holds = Vec::new();
    for lock in &locks {
        holds.push(
            soon(client.mutex(lock.as_str()).unwrap().acquire().min_replicas(1).within(PATIENCE))
                .await
                .unwrap(),
        );
    }
    let replaced = async |server: usize| {
        let master = cluster.wait_until_replaced(&key_of(&locks[server]), server).await.unwrap();
        assert_eq!(master, server + 3);
    };
    cluster.kill(0).await.unwrap();
    replaced(0).await;
    // The replica of the second shard has not read what its master wrote, nor what it writes at the last
    // moment: the client renews all that it holds when it is connected to the first shard again.
    let mut replica = Operator::at(&format!("redis://{}", cluster.servers()[4])).await;
    replica.say::<()>("CONFIG SET replica-read-only no").await;
    replica.say::<()>("FLUSHALL").await;
    cluster.kill(1).await.unwrap();
    replica.say::<()>("FLUSHALL").await;
    replaced(1).await;
    assert_eq!(soon(holds[1].lost()).await, Ended::Lost(LostReason::Forgotten));
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    assert!(holds[0].is_held() && holds[2].is_held(), "renewed at the replica, and at a master that is well");
    for (hold, lock) in holds.iter().zip(&locks) {
        let before = hold.token();
        let _ = soon(hold.release()).await;
        let again = soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap();
        assert!(again.token() > before, "{lock}");
        again.release().await.unwrap();
    }
}

/// A partition with the client on both sides of it. The test promotes the replica itself: an election may end after the
/// replica's copy of the hold has expired, since a master that is cut off renews holds for itself alone.
#[tokio::test]
async fn a_hold_goes_on_beside_a_master_that_is_cut_off_and_what_that_alone_knows_is_forgotten() {
    let cluster = ClusteredRedis::start_cuttable(CALM).await.unwrap();
    let client = user(&cluster, "ttl=40s&request_timeout=15s&connect_timeout=15s").await;
    let mut taken = 0;
    let (lock, late) = (lock_at(&cluster, 0, &mut taken).await, lock_at(&cluster, 0, &mut taken).await);
    let mutex = client.mutex(lock.as_str()).unwrap();
    let hold = soon(mutex.acquire().min_replicas(1).within(PATIENCE)).await.unwrap();
    cluster.cut(0);
    let too_late = soon(client.mutex(late.as_str()).unwrap().acquire()).await.unwrap();
    take_over(&cluster, 3, &lock).await;
    assert_eq!(cluster.master_seen_by(0, &key_of(&lock)).await.unwrap(), Some(0), "it was told");
    assert_eq!(soon(too_late.lost()).await, Ended::Lost(LostReason::Forgotten));
    hold.check().expect("the replica knew it");
    let again = soon(client.mutex(late.as_str()).unwrap().acquire()).await.unwrap();
    assert!(again.token() > too_late.token(), "the new master knows of no token that the old one gave last");
    cluster.heal();
    cluster.wait_until_whole().await.unwrap();
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    for hold in [&hold, &again] {
        hold.check().expect("the new master renews it");
    }
    for hold in [hold, again] {
        soon(hold.release()).await.unwrap();
    }
    soon(client.close()).await.unwrap();
}

/// Replication carries renewals too. The new master knows a hold until a TTL after the last renewal that reached it.
#[tokio::test]
async fn a_hold_that_a_master_renews_alone_for_a_ttl_is_forgotten_by_its_replica() {
    let cluster = ClusteredRedis::start_cuttable(Duration::from_secs(60)).await.unwrap();
    let client = user(&cluster, "ttl=12s").await;
    let lock = lock_at(&cluster, 0, &mut 0).await;
    let mutex = client.mutex(lock.as_str()).unwrap();
    let hold = soon(mutex.acquire().min_replicas(1).within(PATIENCE)).await.unwrap();
    cluster.cut(0);
    let lease = client.lease();
    lease.clock().sleep_until(lease.clock().now() + lease.ttl()).await;
    hold.check().expect("the old master renews it");
    take_over(&cluster, 3, &lock).await;
    assert_eq!(soon(hold.lost()).await, Ended::Lost(LostReason::Forgotten));
    let again = soon(mutex.acquire()).await.unwrap();
    assert!(again.token() > hold.token());
    again.release().await.unwrap();
}

/// Makes a replica the master of this lock, although its old master is alive.
async fn take_over(cluster: &ClusteredRedis, replica: usize, lock: &str) {
    let mut operator = Operator::at(&format!("redis://{}", cluster.servers()[replica])).await;
    operator.say::<()>("CLUSTER FAILOVER TAKEOVER").await;
    assert_eq!(cluster.wait_until_replaced(&key_of(lock), 0).await.unwrap(), replica);
}

#[tokio::test]
async fn queues_of_all_shards_are_listed_page_by_page() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = user(&cluster, "ttl=60s").await;
    let mut holds = Vec::new();
    for key in 0..50 {
        holds.push(soon(client.mutex(format!("job-{key}")).unwrap().acquire()).await.unwrap());
    }
    let (mut found, mut after) = (std::collections::BTreeSet::new(), None);
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

/// How many messages the servers have sent each other because of a `PUBLISH`.
async fn broadcast(cluster: &ClusteredRedis) -> u64 {
    let mut all = 0;
    for server in cluster.servers() {
        let info: String = Operator::at(&format!("redis://{server}")).await.say("CLUSTER INFO").await;
        let sent = info.lines().find_map(|line| line.strip_prefix("cluster_stats_messages_publish_sent:"));
        all += sent.map_or(0, |sent| sent.trim().parse::<u64>().unwrap());
    }
    all
}

/// What the inbox of a client costs the bus.
#[tokio::test]
async fn a_hand_off_costs_the_bus_one_message_to_each_other_server() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let clients = [user(&cluster, "ttl=60s").await, user(&cluster, "ttl=60s").await];
    let (before, began) = (broadcast(&cluster).await, Instant::now());
    let turns = clients.each_ref().map(|client| {
        let mutex = client.mutex("a").unwrap();
        async move {
            for _ in 0..500 {
                let hold = soon(mutex.acquire()).await.unwrap();
                // The other one is in the queue behind it.
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
async fn what_is_wrong_with_the_servers_is_named() {
    let mut mistakes =
        Mistakes::of(include_str!("../../../src/guide/connecting.md"), "## When a cluster is wrong");
    let single = own(&[]).await;
    let error = at(&format!("redis-cluster://{}", single.addr())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    said(&error, &[single.addr(), "no node of a Redis Cluster"]);
    mistakes.made("the URL has `redis-cluster://`, and the host is of no cluster", &error);
    let error = at("redis-cluster://127.0.0.1:1,127.0.0.1:2").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    said(&error, &["127.0.0.1:1,127.0.0.1:2", "refused"]);
    mistakes.made("nobody listens at the hosts of the URL", &error);
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let error = at(&format!("redis://{}", cluster.servers()[0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{error}");
    said(&error, &["redis-cluster://"]);
    mistakes.made("the URL has `redis://`, and the host is of a cluster", &error);
    let error = at("redis-cluster://h/2").await.unwrap_err();
    assert_eq!(error.argument(), Some("url"), "{error}");
    let enough = "+@read +@write +@pubsub +@scripting +@connection -@dangerous +time +info";
    for server in cluster.servers() {
        let mut operator = Operator::at(&format!("redis://{server}")).await;
        for (user, more) in [("blind", ""), ("app", "+cluster|slots")] {
            let rules = format!("on >word ~latchwork:* &latchwork:* {enough} {more}");
            operator.say::<()>(&format!("ACL SETUSER {user} {}", rules.trim_end())).await;
        }
    }
    let error = at(&format!("redis-cluster://blind:word@{}", cluster.servers()[0])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
    assert!(error.to_string().contains("forbidden: CLUSTER SLOTS"), "{error}");
    mistakes.made("the user may not ask who has which slot (`CLUSTER SLOTS`)", &error);
    mistakes.all_made();
    let client = at(&format!("redis-cluster://app:word@{}", cluster.servers()[0])).await.unwrap();
    for lock in locks_of_all(&cluster).await {
        soon(client.mutex(lock).unwrap().acquire()).await.unwrap().release().await.unwrap();
    }
}
