use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{Plant, connected, fails, planted};
use async_trait::async_trait;
use latchwork_core::backend::Node;
use latchwork_core::memory::{self, Memory};
use latchwork_core::{
    Capabilities, Clock, Config, Coordinator, Error, ErrorKind, LostReason, Result, connect_lazy,
};
use parking_lot::Mutex;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Answer {
    Confirmed,
    Silence,
    Error(ErrorKind),
}

#[derive(Debug)]
struct Replicas {
    asked: AtomicU32,
    within: Mutex<Duration>,
    answer: Mutex<Answer>,
}

#[async_trait]
impl Plant for Replicas {
    fn capabilities(&self, real: Capabilities) -> Capabilities {
        Capabilities { confirms_on_replicas: true, ..real }
    }

    async fn confirm(&self, node: &dyn Node, replicas: u32, within: Duration) -> Result<()> {
        assert!(node.state().lost().is_none());
        self.asked.fetch_add(replicas, Ordering::Relaxed);
        *self.within.lock() = within;
        let answer = self.answer.lock().clone();
        match answer {
            Answer::Confirmed => Ok(()),
            Answer::Silence => std::future::pending().await,
            Answer::Error(kind) => Err(Error::new(kind, "planned")),
        }
    }
}

impl Replicas {
    fn new(answer: Answer) -> Arc<Self> {
        Arc::new(Self { asked: AtomicU32::new(0), within: Mutex::default(), answer: Mutex::new(answer) })
    }

    fn client(self: &Arc<Self>, store: &Memory) -> Coordinator {
        planted(store, &Config::new("memory"), self).0
    }

    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn replicas_are_asked_once_for_each_admission_and_only_where_it_is_demanded() {
    let (store, replicas) = (Memory::new(Clock::tokio()), Replicas::new(Answer::Confirmed));
    let client = replicas.client(&store);
    let mutex = client.mutex("a").expect("a good key");
    let held = mutex.acquire().await.expect("acquired");
    assert_eq!(replicas.asked(), 0);
    let mut waits = Box::pin(mutex.acquire().min_replicas(2));
    assert!(tokio::time::timeout(SECOND, &mut waits).await.is_err());
    assert!(mutex.try_acquire().min_replicas(2).await.expect("answered").is_none());
    assert_eq!(replicas.asked(), 0);
    held.release().await.expect("released");
    let held = waits.await.expect("confirmed");
    assert_eq!(replicas.asked(), 2);
    assert!(held.is_held());
}

#[tokio::test(start_paused = true)]
async fn unconfirmed_hold_fails_and_is_released_to_the_next_client() {
    for (kind, retryable) in [(ErrorKind::Unavailable, true), (ErrorKind::Forbidden, false)] {
        let store = Memory::new(Clock::tokio());
        let replicas = Replicas::new(Answer::Error(kind));
        let (client, other) = (replicas.client(&store), replicas.client(&store));
        let (mutex, there) = (client.mutex("a").expect("a key"), other.mutex("a").expect("a key"));
        let error = fails(mutex.acquire().min_replicas(1).await, kind, "not confirmed");
        assert_eq!((error.is_retryable(), error.key()), (retryable, Some("a")));
        fails(mutex.try_acquire().min_replicas(1).await, kind, "not confirmed");
        let next = tokio::time::timeout(SECOND, there.acquire()).await.expect("it was given back");
        assert!(next.expect("acquired").is_held());
    }
}

#[tokio::test(start_paused = true)]
async fn deadline_bounds_the_confirmation_and_its_error_names_replicas() {
    let (store, replicas) = (Memory::new(Clock::tokio()), Replicas::new(Answer::Silence));
    let client = replicas.client(&store);
    let (mutex, begun) = (client.mutex("a").expect("a good key"), Instant::now());
    let error = mutex.acquire().min_replicas(3).within(SECOND).await.expect_err("no replica answers");
    assert_eq!((error.kind(), begun.elapsed()), (ErrorKind::Unavailable, SECOND), "{error}");
    assert!(error.to_string().contains("not yet confirmed by 3 replicas"), "{error}");
    let within = *replicas.within.lock();
    assert!(within < SECOND && within > SECOND * 9 / 10, "there is time for an answer: {within:?}");
    assert!(mutex.try_acquire().await.expect("answered").is_some(), "it was given back");
    // The confirmation has the time of one request.
    for asking in [mutex.acquire(), mutex.acquire().within(100 * SECOND)] {
        let asking = asking.min_replicas(3);
        assert!(tokio::time::timeout(SECOND, asking).await.is_err());
        assert_eq!(*replicas.within.lock(), Config::new("memory").request_timeout);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_that_is_lost_while_replicas_are_asked_is_joined_for_again() {
    let store = Memory::new(Clock::tokio());
    let replicas = Replicas::new(Answer::Error(ErrorKind::Lost(LostReason::Expired)));
    let client = replicas.client(&store);
    let mutex = client.mutex("a").expect("a good key");
    let mut asking = Box::pin(mutex.acquire().min_replicas(1));
    assert!(tokio::time::timeout(SECOND, &mut asking).await.is_err());
    assert!(replicas.asked() > 1, "it asks again for each new node");
    *replicas.answer.lock() = Answer::Confirmed;
    assert!(asking.await.expect("confirmed").is_held());
}

#[tokio::test(start_paused = true)]
async fn min_replicas_is_refused_without_replica_support() {
    let (client, link) = connected();
    let lazy = connect_lazy(&[memory::connector()], &Config::new("memory")).expect("no I/O");
    let refused = ErrorKind::Unsupported { capability: "confirms_on_replicas" };
    for client in [&client, &lazy] {
        let mutex = client.mutex("a").expect("a good key");
        for _ in 0..2 {
            fails(mutex.acquire().min_replicas(1).await, refused, "refused");
            fails(mutex.try_acquire().min_replicas(1).await, refused, "refused");
        }
        assert!(mutex.acquire().min_replicas(0).await.expect("nothing is demanded").is_held());
    }
    link.cut();
    fails(client.mutex("b").expect("a good key").acquire().min_replicas(1).await, refused, "refused");
}
