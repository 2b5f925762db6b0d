use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use latchwork_conformance::errors::fails;
use latchwork_core::{Claim, ErrorKind, Kind};

use super::{DEADLINE, user};
use crate::common::coordinators::{queued, said, uses};
use crate::common::{Operator, admitted, ask, operated, own, queue, served, soon, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_contenders_are_served_one_by_one_while_scripts_are_flushed() {
    const ROUNDS: usize = 5;
    const FLUSHES: usize = 10;
    let (server, mut operator) = operated().await;
    let inside = Arc::new(AtomicBool::new(false));
    let flushed = Arc::new(AtomicUsize::new(0));
    let mut contenders = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let client = user(&server, "ttl=10s").await.unwrap();
        let (inside, flushed) = (Arc::clone(&inside), Arc::clone(&flushed));
        contenders.spawn(async move {
            let mutex = client.mutex("a").unwrap();
            let mut served = 0;
            // A slow machine may serve the first contenders before the first flush.
            while served < ROUNDS || flushed.load(Ordering::Acquire) < FLUSHES {
                let hold = mutex.acquire().await.unwrap();
                assert!(!inside.swap(true, Ordering::AcqRel), "two hold");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::Release);
                hold.release().await.unwrap();
                served += 1;
            }
            client.close().await.unwrap();
        });
    }
    let flushing = async {
        while !contenders.is_empty() {
            operator.tell("SCRIPT FLUSH").await;
            flushed.fetch_add(1, Ordering::AcqRel);
            while let Some(ended) = contenders.try_join_next() {
                ended.unwrap();
            }
        }
    };
    soon(flushing).await;
    assert_eq!(operator.keys("latchwork:*:node").await, [""; 0], "nothing is left");
}

#[tokio::test]
async fn a_master_that_is_demoted_is_named_until_it_is_one_again() {
    let (server, mut operator) = operated().await;
    let client = user(&server, "ttl=2s").await.unwrap();
    let mutex = client.mutex("a").unwrap();
    uses(&client, "a").await;
    operator.tell("REPLICAOF 127.0.0.1 1").await;
    let error = fails(mutex.acquire().within(DEADLINE).await, ErrorKind::Unavailable, "it is a replica");
    said(&error, &["deadline", "replica"]);
    said(&fails(soon(mutex.acquire()).await, ErrorKind::Unavailable, "it is a replica"), &["replica"]);
    operator.tell("REPLICAOF NO ONE").await;
    uses(&client, "a").await;
}

#[tokio::test]
async fn a_client_that_only_holds_leaves_a_demoted_master_at_the_first_failed_renewal() {
    let (_server, mut operator, client) = served("6s").await;
    let held = admitted(&client, &ask(&queue(Kind::Mutex, "a"), Claim::Exclusive)).await;
    operator.tell("REPLICAOF 127.0.0.1 1").await;
    let (lease, demoted) = (held.state().lease(), held.state().lease().clock().now());
    until(async || format!("{client:?}").contains("down")).await;
    let deadline = lease.deadline();
    // A slow machine has renewed the node before.
    let renewed = deadline - lease.ttl().saturating_sub(lease.margin());
    assert!(renewed <= demoted, "renewed by a replica");
    assert_eq!(held.state().lost(), None, "the node was lost before its deadline");
    operator.tell("REPLICAOF NO ONE").await;
    lease.clock().sleep_until(deadline + Duration::from_secs(1)).await;
    assert_eq!(held.state().lost(), None, "the server was not back in time");
}

#[tokio::test]
async fn a_server_that_loads_its_data_is_waited_for_and_named_when_it_takes_too_long() {
    // The server answers between two keys of 1 KiB, hundreds of times within a deadline.
    let server = own(&[
        ["--enable-debug-command", "yes"],
        ["--rdbcompression", "no"],
        ["--loading-process-events-interval-bytes", "1024"],
    ]
    .concat())
    .await;
    let mut operator = Operator::of(&server).await;
    let client = user(&server, "ttl=30s").await.unwrap();
    let hold = client.mutex("a").unwrap().acquire().await.unwrap();
    operator.tell("DEBUG POPULATE 8000 key 1024").await;
    // For each key: eight seconds.
    operator.tell("CONFIG SET key-load-delay 1000").await;
    let reloading = tokio::spawn(async move {
        operator.tell("DEBUG RELOAD").await;
        operator
    });
    let error = soon(async {
        loop {
            match user(&server, "connect_timeout=2s").await {
                Ok(early) => early.close().await.unwrap_or_else(|error| println!("{error}")),
                Err(error) => break error,
            }
        }
    })
    .await;
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    said(&error, &["connect", "loading"]);
    let patient = user(&server, "connect_timeout=30s").await.unwrap();
    let mut operator = soon(reloading).await.unwrap();
    operator.tell("CONFIG SET key-load-delay 0").await;
    assert!(patient.mutex("a").unwrap().try_acquire().await.unwrap().is_none(), "it is held, as before");
    assert!(hold.is_held());
    hold.release().await.unwrap();
    uses(&patient, "a").await;
}

#[tokio::test]
async fn a_server_that_dies_while_a_client_waits_is_an_outage_and_no_timeout() {
    let server = own(&[]).await;
    let (holder, client) = (user(&server, "ttl=30s").await.unwrap(), user(&server, "ttl=30s").await.unwrap());
    let _held = holder.mutex("a").unwrap().acquire().await.unwrap();
    let acquire = client.mutex("a").unwrap().acquire().within(Duration::from_secs(5));
    let waiting = queued(&holder.mutex("a").unwrap(), acquire).await;
    server.kill().await.unwrap();
    let error = fails(soon(waiting).await.unwrap(), ErrorKind::Unavailable, "the server is dead");
    assert!(error.cause().is_some(), "{error}");
}
