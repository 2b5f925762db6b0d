//! Which servers a client asks for the map of slots, and which answers it believes.

use std::time::{Duration, Instant};

use super::keys::{CALM, PROMPT, key_of, lock_at, of, operator};
use crate::common::coordinators::{confirmed, uses};
use crate::common::{LONG, Operator, PATIENCE, soon, until};
use futures_util::StreamExt;
use latchwork_conformance::actions::in_turn;
use latchwork_conformance::servers::ClusteredRedis;
use latchwork_core::{Ended, HoldState, LeaseState};

const PATIENT: &str = "ttl=60s&request_timeout=20s&connect_timeout=30s";

const CONNECTIONS: &str = "total_connections_received:";

/// `MOVED` is permanent, `ASK` is for once.
async fn redirections(server: &mut Operator, how: &str) -> u64 {
    server.counted("INFO errorstats", &format!("errorstat_{how}:count=")).await
}

async fn is_connected(server: &mut Operator) -> bool {
    server.say::<String>("CLIENT LIST").await.contains("name=latchwork:")
}

async fn is_asked_for_the_map(server: &mut Operator, times: u64) {
    let before = server.calls("cluster|slots").await;
    until(async || server.calls("cluster|slots").await >= before + times).await;
}

/// No map names it. It is silent when the first request for its future slot arrives.
#[tokio::test]
async fn a_master_that_is_about_to_get_its_first_slot_is_waited_for_on_one_connection() {
    const NEW: usize = 5;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    cluster.make_empty_master(NEW).await.unwrap();
    let client = of(&cluster, PATIENT).await;
    let key = lock_at(&cluster, 0, &mut 0).await;
    let slot = cluster.slot(&key_of(&key)).await.unwrap();
    let (mut old, mut other) = (operator(&cluster, 0).await, operator(&cluster, 1).await);
    let mut new = operator(&cluster, NEW).await;
    cluster.begin_move(slot, 0, NEW).await.unwrap();

    let connected = new.counted("INFO stats", CONNECTIONS).await;
    assert!(connected > 0, "the operator counts as one connection");
    cluster.pause(NEW).await.unwrap();
    let counter = client.counter(key.as_str()).unwrap();
    let asked = redirections(&mut old, "ASK").await;
    let adding = tokio::spawn({
        let counter = counter.clone();
        async move { counter.add(1).await }
    });
    until(async || redirections(&mut old, "ASK").await > asked).await;
    other.tell("CLIENT KILL TYPE pubsub").await;
    is_asked_for_the_map(&mut old, 2).await;
    assert!(!adding.is_finished(), "a stopped server has answered");
    cluster.resume(NEW).unwrap();
    assert_eq!(soon(adding).await.unwrap().unwrap(), 1);
    let connections = new.counted("INFO stats", CONNECTIONS).await - connected;
    assert_eq!(
        connections, 1,
        "the connection to a server without slots was cut while a request waited on it"
    );

    cluster.move_slot(slot, 0, NEW).await.unwrap();
    assert_eq!(soon(counter.add(1)).await.unwrap(), 2);
    uses(&client, &key).await;
    soon(client.close()).await.unwrap();
}

/// Two of three servers, and all in the URL, were emptied. Only the third knows the new master.
#[tokio::test]
async fn servers_that_have_left_are_not_believed_though_they_are_most_and_are_disconnected() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let client = of(&cluster, PATIENT).await;
    let mut taken = 0;
    let locks = [lock_at(&cluster, 0, &mut taken).await, lock_at(&cluster, 1, &mut taken).await];
    let (mut tokens, mut left) = (Vec::new(), Vec::new());
    for lock in &locks {
        let hold = soon(client.mutex(lock.as_str()).unwrap().acquire()).await.unwrap();
        tokens.push(hold.token());
        soon(hold.release()).await.unwrap();
    }
    for server in [0, 1] {
        let mut emptied = operator(&cluster, server).await;
        assert!(is_connected(&mut emptied).await);
        emptied.tell("FLUSHALL").await;
        emptied.tell("CLUSTER RESET HARD").await;
        left.push(emptied);
        operator(&cluster, server + 3).await.tell("CLUSTER FAILOVER TAKEOVER").await;
    }
    for (lock, token) in locks.iter().zip(tokens) {
        let hold = soon(client.mutex(lock.as_str()).unwrap().acquire().within(PATIENCE)).await.unwrap();
        assert!(hold.token() > token, "by the replica that took over");
        soon(hold.release()).await.unwrap();
    }
    for emptied in &mut left {
        until(async || !is_connected(emptied).await).await;
    }
    soon(client.close()).await.unwrap();
}

/// Like a master that is cut off: a server that imports a slot accepts no updates about it, and names the old
/// owner, which would redirect requests (`MOVED`).
#[tokio::test]
async fn outdated_master_is_ignored_while_the_others_agree() {
    const ROUNDS: i64 = 20;
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let servers = cluster.servers();
    let port = |server: &usize| -> u16 { servers[*server].rsplit(':').next().unwrap().parse().unwrap() };
    let behind = (0..3).min_by_key(port).unwrap();
    let (from, to) = ((behind + 1) % 3, (behind + 2) % 3);
    let mut taken = 0;
    let key = lock_at(&cluster, from, &mut taken).await;
    let open = lock_at(&cluster, from, &mut taken).await;
    let slot = cluster.slot(&key_of(&key)).await.unwrap();
    let slot_of_open = cluster.slot(&key_of(&open)).await.unwrap();
    assert_ne!(slot, slot_of_open);
    let (mut old, mut new) = (operator(&cluster, from).await, operator(&cluster, to).await);
    let id: String = old.say("CLUSTER MYID").await;
    let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {id}");
    operator(&cluster, behind).await.tell(&importing).await;
    let client = of(&cluster, PATIENT).await;
    cluster.move_slot(slot, from, to).await.unwrap();
    let counter = client.counter(key.as_str()).unwrap();
    assert_eq!(soon(counter.add(1)).await.unwrap(), 1);
    let sent_on = redirections(&mut old, "MOVED").await;
    assert!(sent_on > 0, "the client did not ask where the slot is");

    // A slot that is being moved refuses a lock's script, and after each try the client asks for the map.
    cluster.begin_move(slot_of_open, from, to).await.unwrap();
    let acquiring = tokio::spawn(client.mutex(open.as_str()).unwrap().acquire());
    for round in 1..=ROUNDS {
        is_asked_for_the_map(&mut new, 1).await;
        assert_eq!(soon(counter.add(1)).await.unwrap(), round + 1);
    }
    assert_eq!(redirections(&mut old, "MOVED").await, sent_on, "the client used the old map");
    let seen = cluster.master_seen_by(behind, &key_of(&key)).await.unwrap();
    assert_eq!(seen, Some(from), "the client still has the old map");
    cluster.move_slot(slot_of_open, from, to).await.unwrap();
    let hold = soon(acquiring).await.unwrap().unwrap();
    soon(hold.release()).await.unwrap();
    soon(client.close()).await.unwrap();
}

/// The process is stopped: its connections do not end, and no renewal is due for 20 s. An operator promotes
/// its replica.
#[tokio::test]
async fn a_server_that_falls_silent_costs_no_hold_of_the_others_and_its_own_go_on_at_its_replica() {
    let cluster = ClusteredRedis::start(CALM).await.unwrap();
    let (mut taken, mut locks) = (0, Vec::new());
    for server in [0, 1, 2, 0] {
        locks.push(lock_at(&cluster, server, &mut taken).await);
    }
    let next = locks.pop().unwrap();
    let client = of(&cluster, &format!("ttl={LONG}")).await;
    let mut holds = in_turn(locks.iter().map(async |lock| confirmed(&client, lock, 1).await)).await;
    let mut others = Vec::new();
    for hold in &holds[1..] {
        others.push(tokio::spawn(hold.states().collect::<Vec<_>>()));
    }
    let lease = client.lease();
    cluster.pause(0).await.unwrap();
    let silent = Instant::now();
    let acquiring = tokio::spawn(client.mutex(next.as_str()).unwrap().acquire());
    assert_eq!(soon(lease.changed(LeaseState::Live)).await, LeaseState::Suspended);
    assert!(silent.elapsed() < Duration::from_secs(15), "by a late renewal: {:?}", silent.elapsed());
    assert_eq!(holds[0].state(), HoldState::Suspended);
    operator(&cluster, 3).await.tell("CLUSTER FAILOVER TAKEOVER").await;
    assert_eq!(soon(lease.changed(LeaseState::Suspended)).await, LeaseState::Live);
    assert_eq!(holds[0].state(), HoldState::Held, "the replica has the node");
    holds.push(soon(acquiring).await.unwrap().unwrap());
    for hold in holds {
        soon(hold.release()).await.unwrap();
    }
    for states in others {
        let states = soon(states).await.unwrap();
        let expected = [HoldState::Held, HoldState::Ended(Ended::Released)];
        assert_eq!(states, expected, "a hold on a healthy server was lost");
    }
    soon(client.close()).await.unwrap();
}

/// It was emptied, and answers first, by the order of the hosts.
#[tokio::test]
async fn map_of_a_server_outside_the_cluster_is_ignored() {
    let cluster = ClusteredRedis::start(PROMPT).await.unwrap();
    let client = of(&cluster, "ttl=4s").await;
    let servers = cluster.servers();
    let port = |server: &usize| -> u16 { servers[*server].rsplit(':').next().unwrap().parse().unwrap() };
    let first = (0..3).min_by_key(port).unwrap();
    let lock = lock_at(&cluster, first, &mut 0).await;
    let mutex = client.mutex(lock.as_str()).unwrap();
    let before = soon(mutex.acquire()).await.unwrap();
    let token = before.token();
    before.release().await.unwrap();
    let mut emptied = operator(&cluster, first).await;
    emptied.tell("FLUSHALL").await;
    emptied.tell("CLUSTER RESET HARD").await;
    let mut replica = operator(&cluster, first + 3).await;
    replica.tell("CLUSTER FAILOVER TAKEOVER").await;
    let hold = soon(mutex.acquire().within(PATIENCE)).await.unwrap();
    assert!(hold.token() > token, "by the replica that took over");
    hold.release().await.unwrap();
    soon(client.close()).await.unwrap();
}
