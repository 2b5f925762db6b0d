use latchwork_conformance::actions::leave_all;
use latchwork_conformance::errors::fails;
use latchwork_core::{Claim, ErrorKind, Kind, LeaseState, LostReason};

use crate::common::{SHORT, admitted, ask, outlive, queue, served, soon};

#[tokio::test]
async fn a_foreign_entry_does_no_harm_and_a_foreign_key_is_a_conflict() {
    let (_server, mut operator, client) = served("10s").await;
    operator.tell("ZADD latchwork:mutex:{a}:seq 1 stranger").await;
    operator.tell("HSET latchwork:mutex:{a}:node stranger data").await;
    operator.tell("ZADD latchwork:rwlock:{a}:writers 1 stranger").await;
    let node = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    let reader = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Shared)).await;
    operator.tell("ZADD latchwork:rwlock:{a}:writers 2 stranger").await;
    let second = admitted(&client, &ask(&queue(Kind::RwLock, "a"), Claim::Shared)).await;
    leave_all([node, reader, second]).await;
    operator.tell("SET latchwork:mutex:{b}:seq text").await;
    operator.tell("SET latchwork:mutex:{c}:node text").await;
    operator.tell("HSET latchwork:mutex:{d}:one a text").await;
    for key in ["b", "c", "d"] {
        let answer = client.join(&ask(&queue(Kind::Mutex, key), Claim::Exclusive)).await;
        fails(answer, ErrorKind::Conflict, "a foreign key");
    }
    assert_eq!(operator.keys("latchwork:mutex:{b}:*").await, ["latchwork:mutex:{b}:seq"]);
}

#[tokio::test]
async fn one_queue_with_a_foreign_key_costs_the_others_no_renewal() {
    let (_server, mut operator, client) = served(SHORT).await;
    let (a, b) = (queue(Kind::Mutex, "a"), queue(Kind::Mutex, "b"));
    let (spoilt, whole) = (
        admitted(&client, &ask(&a, Claim::Exclusive)).await,
        admitted(&client, &ask(&b, Claim::Exclusive)).await,
    );
    // A renewal in between would find the node gone.
    let mut replaced = redis::cmd("EVAL");
    replaced.arg("redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'a', 'text')");
    operator.run(replaced.arg(1).arg("latchwork:mutex:{a}:one")).await;
    assert_eq!(soon(spoilt.state().until_lost()).await, LostReason::Expired);
    outlive(&client.lease(), 1.5).await;
    assert_eq!(whole.state().lost(), None);
    assert_eq!((client.lease().lost(), client.lease().state()), (None, LeaseState::Live));
}
