use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::keys::{CALM, backend_of, key_of, lock_at, migrate, of, operator, settled};
use crate::common::cells::write;
use crate::common::coordinators::held;
use crate::common::{PATIENCE, close_all, outlive, queue, soon, until};
use latchwork_conformance::actions::in_turn;
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::{CellLife, Kind};

/// The long tier has 64 keys.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_hold_is_lost_while_the_slots_of_contended_keys_move() {
    const KEYS: usize = 64;
    let long = latchwork_conformance::cases::is_long();
    let keys = if long { KEYS } else { KEYS / 4 };
    let cluster = Arc::new(ClusteredRedis::start(CALM).await.unwrap());
    let clients = [of(&cluster, "ttl=6s").await, of(&cluster, "ttl=6s").await];
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
                        Err(error) if error.may_pass() => continue,
                        Err(error) => panic!("{error}"),
                    };
                    assert_eq!(inside[key].fetch_add(1, Ordering::AcqRel), 0, "two hold lock-{key}");
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    assert!(hold.is_held(), "lock-{key} was lost");
                    inside[key].fetch_sub(1, Ordering::AcqRel);
                    grants[key].fetch_add(1, Ordering::AcqRel);
                    if let Err(error) = hold.release().await {
                        assert!(error.may_pass(), "{error}");
                    }
                }
            }));
        }
    }
    let stands = async |key| held(&clients[0], &format!("standing-{key}")).await;
    let standing = in_turn((0..keys).map(stands)).await;
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
    // Each is acquired again after its slot has arrived.
    for key in 0..keys {
        let before = grants[key].load(Ordering::Acquire);
        until(async || grants[key].load(Ordering::Acquire) > before).await;
    }
    outlive(&clients[0].lease(), 1.0).await;
    over.store(true, Ordering::Release);
    for task in tasks {
        soon(task).await.unwrap();
    }
    for hold in standing {
        hold.check().expect("the shard kept the node");
        soon(hold.release()).await.unwrap();
    }
    println!(
        "{moves} slots moved in {took:.1?}, {} grants during the moves, no hold lost",
        grants.iter().map(|grants| grants.load(Ordering::Acquire)).sum::<usize>()
    );
    for client in clients {
        soon(client.close()).await.unwrap();
    }
}

/// The old master answers ASK. The new one refuses a lock's script, which has several keys, until the slot
/// has arrived (TRYAGAIN).
#[tokio::test]
async fn moving_slot_redirects_missing_keys_to_its_new_server() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = of(&cluster, "ttl=30s&request_timeout=10s").await;
    let key = lock_at(&cluster, 0, &mut 0).await;
    let slot = cluster.slot(&key_of(&key)).await.unwrap();
    let mut old = operator(&cluster, 0).await;
    let mut new = operator(&cluster, 1).await;
    let stored = format!("CLUSTER COUNTKEYSINSLOT {slot}");
    cluster.begin_move(slot, 0, 1).await.unwrap();

    let before = new.calls("asking").await;
    let counter = client.counter(key.as_str()).unwrap();
    assert_eq!(soon(counter.add(1)).await.unwrap(), 1);
    let asked = new.calls("asking").await;
    assert!(asked > before, "no request went to the new server after ASKING");
    assert_eq!((old.say::<u64>(&stored).await, new.say::<u64>(&stored).await), (0, 1));

    let acquiring = tokio::spawn(client.mutex(key.as_str()).unwrap().acquire());
    until(async || new.calls("asking").await > asked).await;
    assert!(!acquiring.is_finished(), "a lock's keys cannot be created on either server");
    cluster.move_slot(slot, 0, 1).await.unwrap();
    let hold = soon(acquiring).await.unwrap().unwrap();
    assert!(hold.is_held());
    soon(hold.release()).await.unwrap();
    assert_eq!(soon(counter.add(1)).await.unwrap(), 2);
    soon(client.close()).await.unwrap();
}

/// A lock's script names keys that do not exist, so its renewal is refused during the move.
#[tokio::test]
async fn long_slot_move_loses_no_hold_in_other_slots() {
    const LOCKS: usize = 300;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = of(&cluster, "ttl=6s").await;
    let (mut taken, mut holds, mut first) = (0, Vec::new(), None);
    for _ in 0..LOCKS {
        let lock = lock_at(&cluster, 0, &mut taken).await;
        holds.push(soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap());
        first.get_or_insert(lock);
    }
    let slot = cluster.slot(&key_of(&first.unwrap())).await.unwrap();
    cluster.begin_move(slot, 0, 1).await.unwrap();
    outlive(&client.lease(), 2.0).await;
    assert!(!holds[0].is_held(), "held although its slot is being moved: {:?}", holds[0].state());
    let lost = holds[1..].iter().filter(|hold| !hold.is_held()).count();
    assert_eq!(lost, 0, "of {LOCKS} holds on a server that answers");
    cluster.move_slot(slot, 0, 1).await.unwrap();
    drop(holds);
    soon(client.close()).await.unwrap();
}

#[tokio::test]
async fn cells_survive_a_long_slot_move() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let writes = backend_of(&cluster, "ttl=5s&request_timeout=4s").await;
    let reads = backend_of(&cluster, "ttl=30s").await;
    let (mut taken, mut keys) = (0, Vec::new());
    for _ in 0..8 {
        keys.push(lock_at(&cluster, 0, &mut taken).await);
    }
    let of_key = |key: &String| [Kind::Value, Kind::Counter].map(|kind| queue(kind, key));
    let cells: Vec<_> = keys.iter().flat_map(of_key).collect();
    for cell in &cells {
        soon(write(&writes, cell, "here", CellLife::Lease)).await;
    }
    let slot = cluster.slot(&key_of(&keys[0])).await.unwrap();
    cluster.begin_move(slot, 0, 1).await.unwrap();
    let mut old = operator(&cluster, 0).await;
    migrate(&mut old, &cluster.servers()[1], &cells[0]).await;
    outlive(&writes.lease(), 3.0).await;
    for cell in &cells {
        assert!(soon(reads.read_cell(cell)).await.unwrap().is_some(), "{cell:?} has expired");
    }
    settled(&writes).await;
    cluster.move_slot(slot, 0, 1).await.unwrap();
    close_all([writes, reads]).await;
}
