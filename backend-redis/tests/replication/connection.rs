//! When the connection for confirmations exists, and which requests it may delay.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use latchwork_conformance::actions::in_turn;
use latchwork_conformance::proxy::Proxy;
use latchwork_core::backend::decide::margin;
use latchwork_core::{Claim, Config, ErrorKind, Kind, connect_lazy};

use super::replicas::Replicas;
use super::{NOISE, PATIENT, SOON, is_unconfirmed};
use crate::common::coordinators::{refused, said, user, uses};
use crate::common::{
    Operator, PATIENCE, RIGHTS, admitted, ask, connect, operated, queue, soon, standing, until,
};

#[tokio::test]
async fn it_is_made_at_the_first_confirmation_made_again_when_it_breaks_and_closed_with_the_client() {
    let replicas = Replicas::start().await;
    let proxy = Proxy::start(replicas.primary.addr()).await.unwrap();
    let config = Config::from_url(&format!("redis://{}?min_replicas=2", proxy.addr())).unwrap();
    let client = connect_lazy(&[latchwork_redis::connector()], &config).unwrap();
    soon(client.mutex("a").unwrap().acquire().min_replicas(0)).await.unwrap().release().await.unwrap();
    assert_eq!(proxy.connections(), 1, "a client without confirmations opened the connection");
    for _ in 0..2 {
        uses(&client, "a").await;
        assert_eq!(proxy.connections(), 2, "all acquisitions share one connection");
    }
    proxy.sever();
    uses(&client, "a").await;
    soon(proxy.wait_for_connections(2)).await;
    client.close().await.unwrap();
    soon(proxy.wait_for_connections(0)).await;
}

#[tokio::test]
async fn a_confirmation_that_waits_holds_up_no_other_request() {
    let replicas = Replicas::start().await;
    let client = user(&replicas.url("ttl=60s&request_timeout=5s")).await;
    let round = async || {
        let begun = Instant::now();
        uses(&client, "b").await;
        begun.elapsed()
    };
    let twenty = async || {
        let took = in_turn((0..20).map(async |_| round().await)).await;
        median(took)
    };
    let before = twenty().await;
    replicas.hold_back_all();
    let waits = tokio::spawn(client.mutex("a").unwrap().acquire().min_replicas(1));
    let mut beside = Vec::new();
    while !waits.is_finished() {
        beside.push(round().await);
    }
    is_unconfirmed(&soon(waits).await.unwrap().unwrap_err(), 0, 1);
    let alone = before.max(twenty().await);
    // The control: a request after a WAIT on the same connection.
    let mut shared = Operator::of(&replicas.primary).await;
    shared.tell("SET a 1").await;
    let (mut waiting, begun) = (shared.clone(), Instant::now());
    let (_, ()) = tokio::join!(waiting.say::<u32>("WAIT 1 1000"), shared.tell("PING"));
    let behind = begun.elapsed();
    let (rounds, beside) = (beside.len(), median(beside));
    println!(
        "{rounds} acquisitions beside it, each in {beside:?}, and in {alone:?} alone; \
         a PING behind WAIT 1 1000: {behind:?}"
    );
    assert!(behind >= Duration::from_secs(1), "the control");
    // Otherwise both requests of an acquisition would wait for the end of a WAIT: 50 ms, and up to 100 ms
    // more on an idle server. On a busy machine some requests are as slow, but not half of them.
    assert!(rounds > 10 && beside <= 3 * alone + Duration::from_millis(30), "held up");
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

#[tokio::test]
async fn many_at_once_share_their_questions() {
    const MANY: usize = 200;
    let replicas = Replicas::start().await;
    replicas.follow_directly().await;
    let client = user(&replicas.url("ttl=60s&min_replicas=2&request_timeout=10s")).await;
    uses(&client, "first").await;
    let mut operator = Operator::of(&replicas.primary).await;
    let before = operator.calls("wait").await;
    let begun = Instant::now();
    let mutexes: Vec<_> = (0..MANY).map(|i| client.mutex(format!("m{i}")).unwrap()).collect();
    let holds = soon(join_all(mutexes.iter().map(|mutex| mutex.acquire()))).await;
    let (took, asked) = (begun.elapsed(), operator.calls("wait").await - before);
    holds.into_iter().for_each(|hold| assert!(hold.unwrap().is_held()));
    println!("{MANY} acquisitions were confirmed in {took:?}, with {asked} times WAIT");
    assert!(asked < MANY as u64 / 2, "{asked}");

    let mutex = client.mutex("alone").unwrap();
    let mut medians = Vec::new();
    for replicas in [0, 2] {
        let mut took = Vec::new();
        for _ in 0..MANY {
            let begun = Instant::now();
            mutex.acquire().min_replicas(replicas).await.unwrap().release().await.unwrap();
            took.push(begun.elapsed());
        }
        medians.push(median(took));
    }
    println!("an acquire and its release: {:?}; confirmed by two replicas: {:?}", medians[0], medians[1]);
}

#[tokio::test]
async fn a_deadline_bounds_it_a_dropped_one_leaves_nothing_and_a_close_ends_it() {
    let replicas = Replicas::start().await;
    let client = user(&replicas.url(PATIENT)).await;
    let mutex = client.mutex("a").unwrap();
    replicas.hold_back_all();
    let begun = Instant::now();
    is_unconfirmed(&mutex.acquire().min_replicas(1).within(SOON).await.unwrap_err(), 0, 1);
    assert!(begun.elapsed() < SOON + NOISE, "{:?}", begun.elapsed());
    let is_free = async || mutex.queue().first(10).await.unwrap().is_empty();
    until(is_free).await;

    tokio::select! {
        answer = mutex.acquire().min_replicas(1) => panic!("{answer:?}"),
        () = until(async || !is_free().await) => {}
    }
    until(is_free).await;
    for dropped in 0..50_u32 {
        let after = Duration::from_micros(100) * dropped;
        let asking = mutex.acquire().min_replicas(1);
        assert!(
            tokio::time::timeout(after, asking).await.is_err(),
            "no replica has confirmed the acquisition"
        );
    }
    until(is_free).await;

    let waits = tokio::spawn(mutex.acquire().min_replicas(1));
    until(async || !is_free().await).await;
    let begun = Instant::now();
    client.close().await.unwrap();
    assert_eq!(soon(waits).await.unwrap().unwrap_err().kind(), ErrorKind::Closed);
    assert!(begun.elapsed() < NOISE, "{:?}", begun.elapsed());
    let other = user(&replicas.url("ttl=60s")).await;
    assert!(other.mutex("a").unwrap().try_acquire().await.unwrap().is_some(), "the close released the node");
}

#[tokio::test]
async fn it_moves_no_deadline_but_by_its_renewal_and_a_demoted_primary_confirms_nothing() {
    const TTL: Duration = Duration::from_secs(60);
    let replicas = Replicas::start().await;
    let client = connect(&replicas.url("ttl=60s")).await;
    let node = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    replicas.hold_back_all();
    let (lease, asked) = (node.state().lease(), node.state().lease().clock().now());
    is_unconfirmed(&node.confirm(1, 3 * NOISE).await.unwrap_err(), 0, 1);
    // The renewal was sent in the first half of that.
    let most = asked + 3 * NOISE / 2 + TTL - margin(TTL);
    assert!(lease.deadline() <= most, "the wait counts as a renewal");
    replicas.let_through(0);
    soon(node.confirm(1, PATIENCE)).await.unwrap();

    let mut operator = Operator::of(&replicas.primary).await;
    operator.tell("REPLICAOF 127.0.0.1 1").await;
    let before = lease.deadline();
    let error = soon(node.confirm(1, NOISE)).await.unwrap_err();
    said(&error, &["master"]);
    assert_eq!((error.kind(), lease.deadline()), (ErrorKind::Unavailable, before), "{error}");
    operator.tell("REPLICAOF NO ONE").await;
    replicas.begin_again().await;
}

/// A failover may have two masters, each with a replica.
#[tokio::test]
async fn another_master_where_the_first_one_was_confirms_nothing() {
    let replicas = Replicas::start().await;
    let client = connect(&replicas.url("ttl=60s")).await;
    let join = ask(&queue(Kind::Mutex, "a"), Claim::Exclusive);
    let node = admitted(&client, &join).await;
    replicas.caught_up(2).await;
    replicas.divide().await;
    let error = node.confirm(1, 2 * NOISE).await.unwrap_err();
    said(&error, &["another server"]);
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(node.state().lost(), None, "the former master still has the node");

    // The control: the other master has the node, and a replica that confirms.
    let there = connect(&replicas.url("ttl=60s")).await;
    assert_eq!(standing(&there, &join.queue).await, [true]);
    let mut operator = Operator::of(&replicas.primary).await;
    operator.tell("SET written 2").await;
    assert_eq!(operator.say::<u64>("WAIT 1 60000").await, 1);
}

#[tokio::test]
async fn a_server_that_does_not_allow_it_is_named() {
    let (server, mut operator) = operated().await;
    operator.allow("app", RIGHTS).await;
    operator.allow("mute", &format!("{RIGHTS} -wait")).await;
    let url = |user: &str, options: &str| format!("redis://{user}:word@{}?{options}", server.addr());
    let is_named = |error: &latchwork_core::Error| {
        assert_eq!(error.kind(), ErrorKind::Forbidden, "{error}");
        said(error, &["forbidden: WAIT"]);
    };
    is_named(&refused(&url("mute", "min_replicas=1")).await);
    let app = user(&url("app", "min_replicas=1&request_timeout=3s")).await;
    is_unconfirmed(&app.mutex("a").unwrap().acquire().await.unwrap_err(), 0, 1);
    // Only a client that asks for confirmation needs the right.
    let mute = user(&url("mute", "ttl=10s")).await;
    is_named(&mute.mutex("b").unwrap().acquire().min_replicas(1).await.unwrap_err());
    uses(&mute, "b").await;
    for client in [app, mute] {
        client.close().await.unwrap();
    }
}
