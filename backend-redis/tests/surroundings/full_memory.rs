use std::time::Duration;

use futures_util::future::join4;
use latchwork_conformance::log::{Line, Log};
use latchwork_core::{Ended, ErrorKind, Eviction, LostReason};
use tracing::Level;

use super::{DEADLINE, outlive, user};
use crate::common::coordinators::said;
use crate::common::{Operator, operated, own, soon, until};

#[tokio::test]
async fn a_full_memory_takes_nothing_from_holders_and_waiters() {
    let (server, mut operator) = operated().await;
    let ttl = format!("ttl={}", crate::common::SHORT);
    let (a, b) = (user(&server, &ttl).await.unwrap(), user(&server, &ttl).await.unwrap());
    let (mutex, rwlock, semaphore) =
        (a.mutex("m").unwrap(), a.rwlock("rw").unwrap(), a.semaphore("s", 2).unwrap());
    let doomed = a.mutex("doomed").unwrap();
    let held = (
        mutex.acquire().await.unwrap(),
        rwlock.write().await.unwrap(),
        semaphore.acquire(2).await.unwrap(),
        doomed.acquire().await.unwrap(),
    );
    let waiting = tokio::spawn(join4(
        b.mutex("m").unwrap().acquire(),
        b.rwlock("rw").unwrap().read(),
        b.semaphore("s", 2).unwrap().acquire(1),
        b.mutex("doomed").unwrap().acquire(),
    ));
    for queue in [mutex.queue(), rwlock.queue(), semaphore.queue(), doomed.queue()] {
        until(async || queue.first(9).await.unwrap().len() == 2).await;
    }
    operator.fill_memory().await;

    let fresh = b.mutex("fresh").unwrap();
    said(&fresh.acquire().within(DEADLINE).await.unwrap_err(), &["deadline", "out of memory"]);
    for refused in [fresh.try_acquire().await.unwrap_err(), soon(fresh.acquire()).await.unwrap_err()] {
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        said(&refused, &["out of memory"]);
    }
    assert_eq!(mutex.queue().first(9).await.unwrap().len(), 2, "a listing passes");
    outlive(&a).await;
    assert!(held.0.is_held() && held.1.is_held() && held.2.is_held() && held.3.is_held());
    assert!(!waiting.is_finished());

    let node: Vec<String> = operator.say("ZRANGE latchwork:mutex:{doomed}:seq 0 0").await;
    assert_eq!(operator.say::<u32>(&format!("ZREM latchwork:mutex:{{doomed}}:seq {}", node[0])).await, 1);
    assert_eq!(soon(held.3.lost()).await, Ended::Lost(LostReason::Revoked));
    assert!(b.mutex("m").unwrap().force_release(held.0.token().sequence()).await.unwrap());
    assert_eq!(soon(held.0.lost()).await, Ended::Lost(LostReason::Revoked));
    let reading = held.1.downgrade().await.unwrap();
    held.2.release().await.unwrap();
    let (mutex, reader, permit, freed) = soon(waiting).await.unwrap();
    let next = (mutex.unwrap(), reader.unwrap(), permit.unwrap(), freed.unwrap());
    outlive(&b).await;
    assert!(reading.is_held(), "the writer, now a reader, lost its hold");
    reading.release().await.unwrap();
    assert!(next.0.is_held() && next.1.is_held() && next.2.is_held() && next.3.is_held());
    tokio::try_join!(next.0.release(), next.1.release(), next.2.release(), next.3.release()).unwrap();
    assert_eq!(
        operator.keys("latchwork:*:node").await,
        ["latchwork:clients:{all}:node"],
        "only entries of connected clients remain"
    );
    operator.tell("CONFIG SET maxmemory 0").await;
    fresh.acquire().within(Duration::from_secs(10)).await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn every_policy_that_evicts_is_warned_of_and_refused_when_strict() {
    if !latchwork_conformance::own_process!() {
        return;
    }
    let server = own(&["--maxmemory", "64mb"]).await;
    let mut operator = Operator::of(&server).await;
    let least_used = ["allkeys-lru", "allkeys-lfu", "volatile-lru", "volatile-lfu"];
    let evicting = least_used.into_iter().chain(["allkeys-random", "volatile-random", "volatile-ttl"]);
    let policies = evicting.map(|policy| (policy, Eviction::Possible));
    for (policy, eviction) in policies.chain([("noeviction", Eviction::Never)]) {
        operator.tell(&format!("CONFIG SET maxmemory-policy {policy}")).await;
        let log = Log::listen();
        let client = user(&server, "").await.unwrap();
        assert_eq!(client.capabilities().eviction, eviction, "{policy}");
        let lines = log.lines();
        drop(log);
        let warns = |line: &Line| line.level == Level::WARN && format!("{line:?}").contains("noeviction");
        assert_eq!(lines.iter().any(warns), eviction == Eviction::Possible, "{policy}: {lines:?}");
        match user(&server, "strict=true").await {
            Ok(_) => assert_eq!(eviction, Eviction::Never, "{policy}"),
            Err(error) => {
                assert_eq!((error.kind(), eviction), (ErrorKind::Misconfigured, Eviction::Possible));
                said(&error, &["strict", policy, "noeviction"]);
            }
        }
    }
}
