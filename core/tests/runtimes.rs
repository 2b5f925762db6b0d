//! The background tasks of a client belong to the runtime on which it was created.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Plant, fails, planted};
use async_trait::async_trait;
use latchwork_core::backend::Backend;
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
/// A third of it means "at once" even on a busy machine. Also for waits that a test must not reach.
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

/// Distinguishes a wait for a request timeout from an immediate answer.
fn slow_to_give_up() -> Config {
    let mut config = config_of(LONG);
    config.request_timeout = PATIENCE;
    config
}

/// A runtime that always runs, and one that runs only inside its `block_on`.
fn runtimes() -> [Runtime; 2] {
    let kept = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    [kept, Builder::new_current_thread().enable_all().build().expect("a runtime")]
}

fn connected(runtime: &Runtime, store: &Memory, config: &Config) -> (Coordinator, Link) {
    runtime.block_on(async { store.connect(config) }).expect("connected")
}

fn within<F: IntoFuture>(time: Duration, runtime: &Runtime, future: F) -> F::Output {
    runtime.block_on(async { timeout(time, future).await }).expect("no answer, and no error")
}

fn in_the_end<F: IntoFuture>(runtime: &Runtime, future: F) -> F::Output {
    within(PATIENCE, runtime, future)
}

#[test]
fn a_hold_leaves_at_its_fixed_end_though_the_runtime_of_the_acquire_is_not_driven() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let [(client, _link), (other, _)] = [(); 2].map(|()| connected(&kept, &store, &config()));
    let mutex = client.mutex("a").expect("a good key");
    let guard = passing.block_on(mutex.acquire().max_hold(TTL / 5)).expect("acquired");
    assert!(in_the_end(&kept, other.mutex("a").expect("a good key").acquire()).is_ok());
    assert_eq!(guard.check().expect_err("over").lost_reason(), Some(LostReason::MaxHold));
}

#[test]
fn an_acquire_does_not_wait_for_ever_for_a_leave_on_a_runtime_that_is_not_driven() {
    let [kept, passing] = runtimes();
    let (client, _link) = connected(&passing, &Memory::new(Clock::system()), &config());
    let mutex = client.mutex("a").expect("a good key");
    drop(kept.block_on(mutex.acquire()).expect("acquired"));
    let _ = in_the_end(&kept, mutex.acquire());
}

/// The acquisition of an owner is a task of the runtime that does not run.
#[test]
fn an_owners_acquire_does_not_wait_for_ever_on_a_runtime_that_is_not_driven() {
    let [kept, passing] = runtimes();
    let (client, _link) = connected(&passing, &Memory::new(Clock::system()), &config());
    let mutex = client.mutex("a").expect("a good key");
    let answer = in_the_end(&kept, mutex.acquire().by(&Owner::new("job")));
    fails(answer, ErrorKind::Unavailable, "nobody acquires");
}

#[test]
fn an_acquire_does_not_wait_for_ever_for_a_lazy_connect_on_a_runtime_that_is_not_driven() {
    let [kept, passing] = runtimes();
    let mut config = Config::from_url("memory://lazy-on-a-runtime-that-is-not-driven").expect("a good URL");
    config.ttl = TTL;
    let connectors = [latchwork_core::memory::connector()];
    let client = passing.block_on(async { connect_lazy(&connectors, &config).expect("no I/O") });
    let mutex = client.mutex("a").expect("no I/O");
    fails(in_the_end(&kept, mutex.acquire()), ErrorKind::Unavailable, "nobody connects");
}

#[test]
fn a_reopened_lease_outlives_the_runtime_of_the_acquire_that_reopened_it() {
    let [kept, passing] = runtimes();
    let (client, link) = connected(&kept, &Memory::new(Clock::system()), &config_of(LONG));
    let mutex = client.mutex("a").expect("a good key");
    link.cut();
    client.lease().clock().jump(LONG);
    in_the_end(&kept, async { client.lease().until_lost().await });
    link.heal();
    let guard = passing.block_on(mutex.acquire()).expect("acquired");
    drop(passing);
    kept.block_on(async { tokio::time::sleep(LONG).await });
    guard.check().expect("it is renewed");
}

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
    let early = passing.block_on(mutex.acquire().within(Duration::from_millis(10)));
    fails(early, ErrorKind::Unavailable, "not so soon");
    may.notify_one();
    let _guard = in_the_end(&kept, mutex.acquire()).expect("acquired");
}

fn is_gone<T>(answer: Result<T>) {
    assert!(!fails(answer, ErrorKind::RuntimeGone, "its runtime is gone").is_retryable());
}

/// A `static` coordinator is used in this way if each test has its own runtime.
#[test]
fn a_client_whose_runtime_is_gone_reports_it_at_once_in_every_operation() {
    let ([kept, _], [passing, _]) = (runtimes(), runtimes());
    let store = Memory::new(Clock::system());
    let (client, _link) = connected(&passing, &store, &slow_to_give_up());
    let (other, _link) = connected(&kept, &store, &config_of(LONG));
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
    let at_once = LONG / 3;
    is_gone(within(at_once, &kept, mutex.acquire()));
    is_gone(within(at_once, &kept, mutex.try_acquire()));
    is_gone(within(at_once, &kept, mutex.acquire().within(PATIENCE)));
    is_gone(within(at_once, &kept, mutex.queue().first(1)));
    is_gone(within(at_once, &kept, mutex.force_release(1)));
    is_gone(within(at_once, &kept, reentrant.acquire().by(&owner)));
    is_gone(within(at_once, &kept, rwlock.write()));
    is_gone(within(at_once, &kept, permits.acquire(1)));
    is_gone(within(at_once, &kept, permits.stored_limit()));
    is_gone(within(at_once, &kept, permits.clone().set_limit(2)));
    is_gone(within(at_once, &kept, guard.release()));
    is_gone(within(at_once, &kept, again.release()));
    // Without renewals the client's holds expire.
    assert_eq!(in_the_end(&kept, reader.lost()), Ended::Lost(LostReason::Expired));
    drop(in_the_end(&kept, other.rwlock(key).expect("a good key").write()).expect("acquired"));
    drop((reader, permits));
    let _ = in_the_end(&kept, client.close());
}

#[test]
fn a_waiting_acquire_reports_that_the_runtime_is_gone() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let (client, _link) = connected(&passing, &store, &slow_to_give_up());
    let (other, _link) = connected(&kept, &store, &config_of(LONG));
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
    is_gone(within(LONG / 3, &kept, waiting).expect("no panic"));
    drop(held);
}

#[derive(Debug)]
struct NeverCloses;

#[async_trait]
impl Plant for NeverCloses {
    async fn before_close(&self) {
        std::future::pending().await
    }
}

#[test]
fn close_is_bounded_although_the_backend_never_closes() {
    let [kept, passing] = runtimes();
    let client = passing
        .block_on(async { planted(&Memory::new(Clock::system()), &config(), &Arc::new(NeverCloses)).0 });
    fails(in_the_end(&kept, client.close()), ErrorKind::Unavailable, "the backend confirms nothing");
}

/// The join arrives later, on a live lease.
#[test]
fn a_try_that_is_dropped_with_its_runtime_leaves_nothing() {
    let [kept, passing] = runtimes();
    let store = Memory::new(Clock::system());
    let mut config = config_of(LONG);
    // The clean-up waits a quarter of it for the answer, which is longer than the delay.
    config.request_timeout = Duration::from_secs(8);
    let [(client, link), (other, _)] = [(); 2].map(|()| connected(&kept, &store, &config));
    let mutex = client.mutex("a").expect("a good key");
    assert!(store.contents().is_empty(), "{:?}", store.contents());
    link.delay(Duration::from_secs(1));
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
    let _guard = in_the_end(&kept, other.mutex("a").expect("a good key").acquire()).expect("acquired");
}

#[test]
fn a_quorum_is_widened_though_the_runtime_of_its_acquisition_has_ended() {
    let [kept, passing] = runtimes();
    // The first member answers late, but before the timeout.
    let members = members_of(&kept, LONG, LONG / 2, &["a", "b", "c"]);
    let lock = quorum(&members, LONG);
    members[0].link.hold();
    let guard = passing.block_on(async { lock.acquire().await }).expect("a majority is quick");
    assert!(guard.sequences()[0].is_none(), "it answers later");
    drop(passing);
    members[0].link.resume();
    in_the_end(&kept, async {
        while guard.sequences().iter().any(Option::is_none) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    assert!(guard.is_held());
}

#[test]
fn lost_quorum_is_given_back_though_the_runtime_of_its_first_member_has_ended() {
    let [kept, passing] = runtimes();
    let mut all = members(&passing, TTL, &["a"]);
    all.extend(members(&kept, TTL, &["b", "c"]));
    let lock = quorum(&all, TTL);
    let guard = passing.block_on(async { lock.acquire().await }).expect("free");
    // The first member is lost with its runtime, and the second one by an outage. In between the other
    // runtime completes the majority.
    drop(passing);
    in_the_end(&kept, async {
        while guard.sequences()[1..].iter().any(Option::is_none) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    all[1].link.cut();
    in_the_end(&kept, guard.lost());
    let (other, _link) = connected(&kept, &all[2].store, &config());
    let next = in_the_end(&kept, other.mutex("x").expect("a good key").acquire());
    let _next = next.expect("the third member is given back, while the guard of the lost hold is kept");
    assert!(!guard.is_held());
}

struct Member {
    store: Memory,
    client: Coordinator,
    link: Link,
}

/// A client of a separate server for each name.
fn members(runtime: &Runtime, ttl: Duration, names: &[&str]) -> Vec<Member> {
    members_of(runtime, ttl, ttl / 10, names)
}

fn members_of(runtime: &Runtime, ttl: Duration, request_timeout: Duration, names: &[&str]) -> Vec<Member> {
    let connected = names.iter().map(|&name| {
        let mut config = config_of(ttl);
        (config.name, config.request_timeout) = (Some(name.to_owned()), request_timeout);
        let store = Memory::new(Clock::system());
        let (client, link) = connected(runtime, &store, &config);
        Member { store, client, link }
    });
    connected.collect()
}

fn quorum(members: &[Member], ttl: Duration) -> QuorumLock {
    let clients = members.iter().map(|member| member.client.clone());
    QuorumLock::trusting("x", clients, ttl).expect("good members")
}

#[test]
fn a_quorum_of_clients_whose_runtime_is_gone_reports_it_at_once() {
    let [kept, passing] = runtimes();
    let lock = quorum(&members(&passing, LONG, &["a", "b", "c"]), LONG);
    drop(passing);
    is_gone(within(LONG / 3, &kept, lock.acquire()));
    is_gone(within(LONG / 3, &kept, lock.try_acquire()));
}

#[test]
fn a_quorum_waits_for_no_member_whose_runtime_is_not_driven() {
    let [kept, passing] = runtimes();
    let mut all = members(&kept, TTL, &["a", "b"]);
    all.extend(members(&passing, TTL, &["c"]));
    let (other, _link) = connected(&kept, &all[1].store, &config());
    let _held = kept.block_on(other.mutex("x").expect("a good key").acquire()).expect("free");
    let lock = quorum(&all, TTL);
    let tried = in_the_end(&kept, lock.try_acquire());
    assert!(tried.expect("a majority has answered").is_none(), "one is held, one refused");
}
