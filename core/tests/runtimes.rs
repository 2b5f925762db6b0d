//! A client on more than one runtime: its background tasks belong to the runtime that it was made
//! on.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Plant, planted};
use async_trait::async_trait;
use latchwork_core::backend::{Backend, Leave, Node};
use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::QuorumLock;
use latchwork_core::{
    Clock, Config, Connector, Coordinator, Ended, ErrorKind, LostReason, Owner, Result, connect_lazy,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Long enough that a busy machine delays no renewal beyond it.
const TTL: Duration = Duration::from_secs(2);
/// Where a third of it is "at once", on a busy machine too, or where that is no time to wait for.
const LONG: Duration = Duration::from_secs(6);
/// Only an operation that never ends reaches this bound.
const PATIENCE: Duration = Duration::from_secs(30);

fn config() -> Config {
    config_of(TTL)
}

fn config_of(ttl: Duration) -> Config {
    let mut config = Config::new("memory");
    config.ttl = ttl;
    config
}

/// Whoever waits for a request's time is told from who answers at once.
fn slow_to_give_up() -> Config {
    let mut config = config_of(LONG);
    config.request_timeout = PATIENCE;
    config
}

/// A runtime that is driven all the time, and one that runs only inside its `block_on`.
fn runtimes() -> [Runtime; 2] {
    let kept = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    [kept, Builder::new_current_thread().enable_all().build().expect("a runtime")]
}

fn two_clients(store: &Memory, config: &Config) -> (Coordinator, Link, Coordinator) {
    let (client, link) = store.connect(config).expect("connected");
    (client, link, store.connect(config).expect("connected").0)
}

#[test]
fn a_hold_leaves_at_its_fixed_end_though_the_runtime_of_the_acquire_is_not_driven() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let (client, _link, other) = kept.block_on(async { two_clients(&store, &config()) });
    let mutex = client.mutex("a").expect("a good key");
    let guard = passing.block_on(mutex.acquire().max_hold(TTL / 5)).expect("acquired");
    let next = other.mutex("a").expect("a good key");
    let next = kept.block_on(async { timeout(PATIENCE, next.acquire()).await });
    assert!(next.expect("the node has not left").is_ok());
    assert_eq!(guard.check().expect_err("over").lost_reason(), Some(LostReason::MaxHold));
}

#[test]
fn an_acquire_does_not_wait_for_ever_for_a_leave_on_a_runtime_that_is_not_driven() {
    let [kept, passing] = runtimes();
    let (client, _link) =
        passing.block_on(async { Memory::new(Clock::system()).connect(&config()).expect("connected") });
    let mutex = client.mutex("a").expect("a good key");
    drop(kept.block_on(mutex.acquire()).expect("acquired"));
    let answer = kept.block_on(async { timeout(PATIENCE, mutex.acquire()).await });
    assert!(answer.is_ok(), "no answer, and no error");
}

/// The acquisition of an owner is a task of the runtime that is not driven.
#[test]
fn an_owners_acquire_does_not_wait_for_ever_on_a_runtime_that_is_not_driven() {
    let [kept, passing] = runtimes();
    let (client, _link) =
        passing.block_on(async { Memory::new(Clock::system()).connect(&config()).expect("connected") });
    let mutex = client.mutex("a").expect("a good key");
    let owner = Owner::new("job");
    let answer = kept.block_on(async { timeout(PATIENCE, mutex.acquire().by(&owner)).await });
    let error = answer.expect("no answer, and no error").expect_err("nobody acquires");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[test]
fn an_acquire_does_not_wait_for_ever_for_a_lazy_connect_on_a_runtime_that_is_not_driven() {
    let [kept, passing] = runtimes();
    let mut config = Config::from_url("memory://lazy-on-a-runtime-that-is-not-driven").expect("a good URL");
    config.ttl = TTL;
    let connectors = [latchwork_core::memory::connector()];
    let client = passing.block_on(async { connect_lazy(&connectors, &config).expect("no I/O") });
    let mutex = client.mutex("a").expect("no I/O");
    let answer = kept.block_on(async { timeout(PATIENCE, mutex.acquire()).await });
    let error = answer.expect("no answer, and no error").expect_err("nobody connects");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn a_reopened_lease_outlives_the_runtime_of_the_acquire_that_reopened_it() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let (client, link, _) = kept.block_on(async { two_clients(&store, &config_of(LONG)) });
    let mutex = client.mutex("a").expect("a good key");
    link.cut();
    // As though the machine had slept for so long.
    client.lease().clock().jump(LONG);
    kept.block_on(async { timeout(PATIENCE, client.lease().until_lost()).await }).expect("lost");
    link.heal();
    let guard = passing.block_on(mutex.acquire()).expect("acquired");
    drop(passing);
    kept.block_on(async { tokio::time::sleep(LONG).await });
    guard.check().expect("it is renewed");
}

/// A connector that waits for permission.
#[derive(Debug)]
struct Slow(Memory, Arc<Notify>);

#[async_trait]
impl Connector for Slow {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn validate(&self, _config: &Config) -> Result<()> {
        Ok(())
    }

    async fn connect(&self, config: &Config) -> Result<Arc<dyn Backend>> {
        self.1.notified().await;
        Ok(self.0.client(config)?.0)
    }
}

#[test]
fn a_first_use_on_a_runtime_that_is_not_driven_does_not_keep_others_from_connecting() {
    let [kept, passing] = runtimes();
    let may = Arc::new(Notify::new());
    let slow: Arc<dyn Connector> = Arc::new(Slow(Memory::new(Clock::system()), Arc::clone(&may)));
    let lazy = kept.block_on(async { connect_lazy(&[slow], &config()) }).expect("nothing is asked of it yet");
    let mutex = lazy.mutex("a").expect("a good key");
    let error = passing.block_on(mutex.acquire().within(Duration::from_millis(10))).expect_err("not so soon");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    may.notify_one();
    let acquired = kept.block_on(async { timeout(PATIENCE, mutex.acquire()).await });
    let _guard = acquired.expect("it waits for a connect that is not driven").expect("acquired");
}

fn is_gone(error: &latchwork_core::Error) {
    assert_eq!(error.kind(), ErrorKind::RuntimeGone, "{error}");
    assert!(!error.is_retryable());
}

/// As with a `static` coordinator, when each test has a runtime of its own.
#[test]
fn a_client_whose_runtime_is_gone_reports_it_at_once_in_every_operation() {
    let ([kept, _], [passing, _]) = (runtimes(), runtimes());
    let store = Memory::new(Clock::system());
    let (client, _link, _) = passing.block_on(async { two_clients(&store, &slow_to_give_up()) });
    let (other, _link) = kept.block_on(async { store.connect(&config_of(LONG)).expect("connected") });
    let key = "a";
    let (mutex, reentrant) = (client.mutex(key).expect("a good key"), client.mutex(key).expect("a good key"));
    let (rwlock, permits) =
        (client.rwlock(key).expect("a good key"), client.semaphore(key, 1).expect("a good key"));
    let owner = latchwork_core::Owner::new("o");
    let (guard, reader, again) = kept.block_on(async {
        let again = client.mutex("b").expect("a good key").acquire().by(&owner).await;
        let held = (mutex.acquire().await, rwlock.read().await, again);
        (held.0.expect("acquired"), held.1.expect("acquired"), held.2.expect("acquired"))
    });
    drop(passing);
    let within = |what| kept.block_on(async { timeout(LONG / 3, what).await.expect("at once") });
    let all: Vec<std::pin::Pin<Box<dyn Future<Output = latchwork_core::Error>>>> = vec![
        Box::pin(async { mutex.acquire().await.expect_err("gone") }),
        Box::pin(async { mutex.try_acquire().await.expect_err("gone") }),
        Box::pin(async { mutex.acquire().within(PATIENCE).await.expect_err("gone") }),
        Box::pin(async { mutex.queue().first(1).await.expect_err("gone") }),
        Box::pin(async { mutex.force_release(1).await.expect_err("gone") }),
        Box::pin(async { reentrant.acquire().by(&owner).await.expect_err("gone") }),
        Box::pin(async { rwlock.write().await.expect_err("gone") }),
        Box::pin(async { permits.acquire(1).await.expect_err("gone") }),
        Box::pin(async { permits.stored_limit().await.expect_err("gone") }),
        Box::pin(async { permits.clone().set_limit(2).await.expect_err("gone") }),
        Box::pin(async { guard.release().await.expect_err("gone") }),
        Box::pin(async { again.release().await.expect_err("gone") }),
    ];
    for what in all {
        is_gone(&within(what));
    }
    // Without renewal its holds expire, and the next client gets in.
    assert_eq!(
        kept.block_on(async { timeout(PATIENCE, reader.lost()).await }).expect("lost"),
        Ended::Lost(LostReason::Expired)
    );
    let next = other.rwlock(key).expect("a good key");
    let next = kept.block_on(async { timeout(PATIENCE, next.write()).await });
    drop(next.expect("the server never gives it up").expect("acquired"));
    drop((reader, permits));
    assert!(
        kept.block_on(async { timeout(PATIENCE, client.close()).await }).is_ok(),
        "no answer, and no error"
    );
}

#[test]
fn a_waiting_acquire_reports_that_the_runtime_is_gone() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let (client, _link, _) = passing.block_on(async { two_clients(&store, &slow_to_give_up()) });
    let (other, _link) = kept.block_on(async { store.connect(&config_of(LONG)).expect("connected") });
    let held = kept.block_on(other.mutex("a").expect("a good key").acquire()).expect("acquired");
    let waiting = kept.spawn({
        let mutex = client.mutex("a").expect("a good key");
        async move { mutex.acquire().await }
    });
    let queue = other.mutex("a").expect("a good key");
    kept.block_on(async {
        while queue.queue().first(10).await.expect("listed").len() < 2 {
            tokio::task::yield_now().await;
        }
    });
    drop(passing);
    let answer =
        kept.block_on(async { timeout(LONG / 3, waiting).await }).expect("at once").expect("no panic");
    is_gone(&answer.expect_err("gone"));
    drop(held);
}

/// A close of the backend never returns.
#[derive(Debug)]
struct NeverCloses;

#[async_trait]
impl Plant for NeverCloses {
    async fn leave(&self, node: &dyn Node) -> Result<Leave> {
        node.leave().await
    }

    async fn before_close(&self) {
        std::future::pending().await
    }
}

#[test]
fn a_close_is_bounded_whatever_the_backend_waits_for() {
    let [kept, passing] = runtimes();
    let client = passing
        .block_on(async { planted(&Memory::new(Clock::system()), &config(), &Arc::new(NeverCloses)).0 });
    let closed = kept.block_on(async { timeout(PATIENCE, client.close()).await });
    let error = closed.expect("no answer, and no error").expect_err("the backend confirms nothing");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

/// Its join lands all the same, on a lease that lives on.
#[test]
fn a_try_that_is_dropped_with_its_runtime_leaves_nothing() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let mut config = config_of(LONG);
    // A quarter of it is longer than the answer is on its way: so long the clean-up awaits it.
    config.request_timeout = Duration::from_secs(8);
    let (client, link, other) = kept.block_on(async { two_clients(&store, &config) });
    let mutex = client.mutex("a").expect("a good key");
    assert!(store.contents().is_empty(), "{:?}", store.contents());
    link.delay(Duration::from_secs(1));
    // The server has it, and its answer is on the way.
    let has_landed = async {
        while store.contents().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    passing.block_on(async {
        tokio::select! {
            biased;
            answer = mutex.try_acquire() => panic!("it is on the way for half a second: {answer:?}"),
            () = has_landed => {}
        }
    });
    drop(passing);
    let next = other.mutex("a").expect("a good key");
    let next = kept.block_on(async { timeout(PATIENCE, next.acquire()).await });
    let _guard = next.expect("nobody gives back what the join has made").expect("acquired");
}

#[test]
fn a_quorum_is_widened_though_the_runtime_of_its_acquisition_has_ended() {
    let [kept, passing] = runtimes();
    let members: Vec<_> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            let mut config = config_of(LONG);
            config.name = Some(name.to_owned());
            kept.block_on(async { Memory::new(Clock::system()).connect(&config).expect("connected") })
        })
        .collect();
    let clients = members.iter().map(|(client, _)| client.clone());
    let lock = QuorumLock::trusting("x", clients, LONG).expect("good members");
    // It is asked first.
    members[0].1.hold();
    let guard = passing.block_on(async { lock.acquire().await }).expect("a majority is quick");
    assert!(guard.sequences()[0].is_none(), "it answers later");
    drop(passing);
    members[0].1.resume();
    kept.block_on(async {
        let widened = async {
            while guard.sequences().iter().any(Option::is_none) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(PATIENCE, widened).await.expect("it never joins");
    });
    assert!(guard.is_held());
}

/// One client of a server of its own for each name, on this runtime.
fn members(runtime: &Runtime, ttl: Duration, names: &[&str]) -> Vec<(Memory, Coordinator)> {
    let connected = names.iter().map(|&name| {
        let mut config = config_of(ttl);
        (config.name, config.request_timeout) = (Some(name.to_owned()), ttl / 10);
        let store = Memory::new(Clock::system());
        let (client, _link) = runtime.block_on(async { store.connect(&config).expect("connected") });
        (store, client)
    });
    connected.collect()
}

fn quorum(members: &[(Memory, Coordinator)], ttl: Duration) -> QuorumLock {
    let clients = members.iter().map(|(_, client)| client.clone());
    QuorumLock::trusting("x", clients, ttl).expect("good members")
}

#[test]
fn a_quorum_of_clients_whose_runtime_is_gone_reports_it_at_once() {
    let [kept, passing] = runtimes();
    let lock = quorum(&members(&passing, LONG, &["a", "b", "c"]), LONG);
    drop(passing);
    let within = |what| kept.block_on(async { timeout(LONG / 3, what).await.expect("at once") });
    let all: [std::pin::Pin<Box<dyn Future<Output = latchwork_core::Error>>>; 2] = [
        Box::pin(async { lock.acquire().await.expect_err("gone") }),
        Box::pin(async { lock.try_acquire().await.expect_err("gone") }),
    ];
    for what in all {
        is_gone(&within(what));
    }
}

#[test]
fn a_quorum_waits_for_no_member_whose_runtime_is_not_driven() {
    let [kept, passing] = runtimes();
    let mut all = members(&kept, TTL, &["a", "b"]);
    all.extend(members(&passing, TTL, &["c"]));
    let other = kept.block_on(async { all[1].0.connect(&config()).expect("connected").0 });
    let _held = kept.block_on(async { other.mutex("x").expect("a good key").acquire().await.expect("free") });
    let lock = quorum(&all, TTL);
    let tried = kept.block_on(async { timeout(PATIENCE, lock.try_acquire()).await });
    let tried = tried.expect("no answer, and no error");
    assert!(tried.expect("a majority has answered").is_none(), "one is held, one refused");
}
