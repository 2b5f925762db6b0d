//! A client that is used on more than one runtime: what goes on in the background belongs to the one that it was made on.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::Backend;
use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::Acquire;
use latchwork_core::{
    Clock, Config, Connector, Coordinator, ErrorKind, Hold, LostReason, Result, connect_lazy,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::timeout;

/// Long beside what a busy machine takes away from a renewal.
const TTL: Duration = Duration::from_secs(3);
/// Only what never ends meets this bound.
const PATIENCE: Duration = Duration::from_secs(30);

fn config() -> Config {
    let mut config = Config::new("memory");
    config.ttl = TTL;
    config
}

/// One that somebody keeps, and one that is there for a moment: nothing runs on it but under its `block_on`.
fn runtimes() -> [Runtime; 2] {
    let kept = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    [kept, Builder::new_current_thread().enable_all().build().expect("a runtime")]
}

fn two_clients(store: &Memory) -> (Coordinator, Link, Coordinator) {
    let (client, link) = store.connect(&config()).expect("connected");
    (client, link, store.connect(&config()).expect("connected").0)
}

#[test]
fn a_fixed_end_is_told_though_the_runtime_of_the_acquire_is_not_driven() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let (client, _link, other) = kept.block_on(async { two_clients(&store) });
    let mutex = client.mutex("a").expect("a good key");
    let max_hold = Acquire::new().max_hold(TTL / 5);
    let guard = passing.block_on(mutex.acquire_with(max_hold)).expect("acquired");
    let next = other.mutex("a").expect("a good key");
    let next = kept.block_on(async { timeout(PATIENCE, next.acquire()).await });
    assert!(next.expect("the server was never told").is_ok());
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
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
}

#[test]
fn a_lease_that_is_opened_anew_outlives_the_runtime_of_whoever_asked_for_it() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let (client, link, _) = kept.block_on(async { two_clients(&store) });
    let mutex = client.mutex("a").expect("a good key");
    link.cut();
    kept.block_on(async { timeout(PATIENCE, client.lease().until_lost()).await }).expect("lost");
    link.heal();
    let guard = passing.block_on(mutex.acquire()).expect("acquired");
    drop(passing);
    kept.block_on(async { tokio::time::sleep(TTL * 3 / 2).await });
    guard.check().expect("it is renewed");
}

/// Connects when it may.
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
fn a_first_use_on_a_runtime_that_is_not_driven_keeps_nobody_else_from_connecting() {
    let [kept, passing] = runtimes();
    let may = Arc::new(Notify::new());
    let slow: Arc<dyn Connector> = Arc::new(Slow(Memory::new(Clock::system()), Arc::clone(&may)));
    let lazy = kept.block_on(async { connect_lazy(&[slow], &config()) }).expect("nothing is asked of it yet");
    let mutex = lazy.mutex("a").expect("a good key");
    let within = Acquire::new().within(Duration::from_millis(10));
    let error = passing.block_on(mutex.acquire_with(within)).expect_err("not so soon");
    assert_eq!(error.kind(), &ErrorKind::Timeout);
    may.notify_one();
    let acquired = kept.block_on(async { timeout(PATIENCE, mutex.acquire()).await });
    let _guard = acquired.expect("it waits for a connecting that nobody drives").expect("acquired");
}
