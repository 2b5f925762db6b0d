use std::time::Duration;

use latchwork_core::{Claim, Kind};

use super::replicas::Replicas;
use super::{PATIENT, is_unconfirmed};
use crate::common::coordinators::{queued, user};
use crate::common::{Operator, PATIENCE, admitted, ask, close_all, connect, queue, soon, waiting};

const SHORTLY: Duration = Duration::from_secs(2);

#[tokio::test]
async fn the_winner_of_a_hand_off_is_not_confirmed_while_replication_is_held_back() {
    let replicas = Replicas::start().await;
    let (holder, winner) = (connect(&replicas.url("ttl=60s")).await, connect(&replicas.url("ttl=60s")).await);
    let queue = queue(Kind::Mutex, "a");
    let held = admitted(&holder, &ask(&queue, Claim::Exclusive)).await;
    let waits = waiting(&winner, &ask(&queue, Claim::Exclusive)).await;
    // The connection for confirmations has written before.
    let earlier = admitted(&winner, &ask(&crate::common::queue(Kind::Mutex, "b"), Claim::Exclusive)).await;
    soon(earlier.confirm(2, PATIENCE)).await.unwrap();
    earlier.leave().await.unwrap();
    // Like the winner's connection, it wrote before, and writes nothing more.
    let mut shared = Operator::of(&replicas.primary).await;
    shared.tell("SET a-join 1").await;
    // This connection has written nothing.
    let mut own = Operator::of(&replicas.primary).await;
    replicas.caught_up(2).await;
    replicas.hold_back_all();
    held.leave().await.unwrap();
    soon(waits.admitted()).await.unwrap();
    let error = waits.confirm(1, SHORTLY).await.unwrap_err();
    is_unconfirmed(&error, 0, 1);

    // The controls: without an own write after the admission, both confirm.
    let on_shared: u64 = shared.say("WAIT 2 1000").await;
    let on_own: u64 = own.say("WAIT 1 1000").await;
    assert_eq!((on_shared, on_own), (2, 2), "a control confirmed an acquisition that no replica has");
    println!("{error}; without its own write, {on_shared} of 2 replicas confirmed it");

    replicas.let_through(1);
    soon(waits.confirm(1, PATIENCE)).await.unwrap();
    close_all([holder, winner]).await;
}

#[tokio::test]
async fn a_waiter_that_is_not_confirmed_is_given_back_and_the_next_one_comes_in() {
    let replicas = Replicas::start().await;
    let (holder, winner) = (user(&replicas.url(PATIENT)).await, user(&replicas.url(PATIENT)).await);
    soon(winner.mutex("b").unwrap().acquire().min_replicas(2)).await.unwrap().release().await.unwrap();
    let held = soon(holder.mutex("a").unwrap().acquire()).await.unwrap();
    let mutex = winner.mutex("a").unwrap();
    let acquire = mutex.acquire().min_replicas(1).within(3 * SHORTLY);
    let waits = queued(&holder.mutex("a").unwrap(), acquire).await;
    replicas.hold_back_all();
    held.release().await.unwrap();
    let error = soon(waits).await.unwrap().unwrap_err();
    is_unconfirmed(&error, 0, 1);
    let next = soon(holder.mutex("a").unwrap().acquire()).await.unwrap();
    assert!(next.is_held());
    replicas.let_through(0);
    next.release().await.unwrap();
    let confirmed = soon(mutex.acquire().min_replicas(1)).await.unwrap();
    assert!(confirmed.is_held());
}
