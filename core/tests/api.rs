//! What a user may count on of the types, whatever the backend: they travel between tasks, show themselves, and a guard may
//! be dropped anywhere.

use std::fmt::Debug;
use std::time::Duration;

use futures_util::FutureExt;
use latchwork_core::contracts::{
    Backend, Close, Entry, Join, Joined, Lease, LeaseState, Node, NodeId, NodeState, Page, Patience,
};
use latchwork_core::decide::Claim;
use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::{Acquire, Mutex, MutexGuard, Permit, ReadGuard, RwLock, Semaphore, WriteGuard};
use latchwork_core::{
    Address, Capabilities, Clock, Config, Coordinator, Error, ErrorKind, Eviction, Fenced, Hold, Kind, Loss,
    Lost, LostReason, Moment, Name, Release, Secret, Token, connect, memory,
};
use tokio::runtime::{Builder, Runtime};

fn travels<T: Send + Sync + Unpin + Debug + 'static>() {}
fn travels_unsized<T: Send + Sync + Debug + ?Sized + 'static>() {}
fn is_send<T: Send + 'static>(value: T) -> T {
    value
}

#[test]
fn every_public_type_is_send_sync_unpin_and_debug() {
    travels::<Coordinator>();
    travels::<Mutex>();
    travels::<MutexGuard>();
    travels::<RwLock>();
    travels::<ReadGuard>();
    travels::<WriteGuard>();
    travels::<Semaphore>();
    travels::<Permit>();
    travels::<Acquire>();
    travels::<Loss>();
    travels::<Lost>();
    travels::<LostReason>();
    travels::<Release>();
    travels::<Token>();
    travels::<Address>();
    travels::<Name>();
    travels::<Kind>();
    travels::<Capabilities>();
    travels::<Eviction>();
    travels::<Config>();
    travels::<Secret>();
    travels::<Error>();
    travels::<ErrorKind>();
    travels::<Clock>();
    travels::<Moment>();
    travels::<Memory>();
    travels::<Link>();
    travels::<Lease>();
    travels::<LeaseState>();
    travels::<NodeState>();
    travels::<NodeId>();
    travels::<Join>();
    travels::<Joined>();
    travels::<Entry>();
    travels::<Page>();
    travels::<Patience>();
    travels::<Close>();
    travels::<Claim>();
    travels_unsized::<dyn Backend>();
    travels_unsized::<dyn Node>();
    travels_unsized::<dyn Hold>();
}

/// Nothing here is awaited: that it compiles is the test.
#[test]
fn every_future_can_be_spawned() {
    let runtime = runtime();
    let _guard = runtime.enter();
    let mutex = runtime.block_on(private()).mutex("a").expect("a good key");
    let futures: [futures_util::future::BoxFuture<'static, ()>; 4] = [
        Box::pin({
            let mutex = mutex.clone();
            async move { drop(mutex.acquire().await) }
        }),
        Box::pin({
            let mutex = mutex.clone();
            async move { drop(mutex.try_acquire().await) }
        }),
        Box::pin({
            let mutex = mutex.clone();
            async move { drop(mutex.acquire_within(Duration::from_secs(1)).await) }
        }),
        Box::pin(async move {
            if let Ok(guard) = mutex.acquire().await {
                drop(guard.run(async {}).await);
                drop(guard.release().await);
            }
        }),
    ];
    drop(is_send(futures));
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
}

async fn private() -> Coordinator {
    let config = Config::from_url("memory://").expect("a good URL");
    connect(&[memory::connector()], &config).await.expect("connected")
}

#[test]
fn a_guard_dropped_on_a_thread_without_a_runtime_is_released() {
    let runtime = runtime();
    let mutex = runtime.block_on(async { private().await.mutex("a") }).expect("a good key");
    let guard = runtime.block_on(mutex.acquire()).expect("acquired");
    let first = guard.token();
    std::thread::spawn(move || drop(guard)).join().expect("no panic outside a runtime");
    let again = runtime.block_on(mutex.try_acquire()).expect("answered").expect("free");
    assert!(again.token() > first);
    runtime.block_on(again.release()).expect("released");
}

#[test]
fn a_guard_that_outlives_its_runtime_is_dropped_in_peace() {
    let runtime = runtime();
    let coordinator = runtime.block_on(private());
    let mutex = coordinator.mutex("a").expect("a good key");
    let (guard, loss) = runtime.block_on(async {
        let guard = mutex.acquire().await.expect("acquired");
        let loss = guard.lost();
        (guard, loss)
    });
    runtime.shutdown_timeout(Duration::from_secs(5));
    // Its keeper is dead: it is held until the deadline, by the clock, and not a moment for its silence.
    assert!(guard.is_held());
    coordinator.lease().clock().jump(coordinator.lease().ttl());
    assert_eq!(guard.check().expect_err("lost").lost_reason(), Some(LostReason::Expired));
    assert_eq!(loss.reason(), Some(LostReason::Expired));
    drop(guard);
    drop((loss, mutex, coordinator));
}

#[test]
fn a_dropped_acquire_outside_its_runtime_does_not_panic() {
    let runtime = runtime();
    let coordinator = runtime.block_on(private());
    let mutex = coordinator.mutex("a").expect("a good key");
    let guard = runtime.block_on(mutex.acquire()).expect("acquired");
    let waiting = {
        let mutex = mutex.clone();
        let mut waiting: futures_util::future::BoxFuture<'static, _> =
            Box::pin(async move { mutex.acquire().await });
        let polled = runtime.block_on(async { (&mut waiting).now_or_never() });
        assert!(polled.is_none(), "it waits behind the guard");
        waiting
    };
    std::thread::spawn(move || drop(waiting)).join().expect("no panic");
    runtime.block_on(guard.release()).expect("released");
    let again =
        runtime.block_on(mutex.acquire_within(Duration::from_secs(5))).expect("nobody is left in front");
    assert_eq!(runtime.block_on(mutex.queue(0, 10)).expect("listed").len(), 1);
    runtime.block_on(again.release()).expect("released");
}

#[test]
fn secrets_show_in_no_text() {
    let config = Config::from_url("redis://user:hunter2@host").expect("a good URL");
    assert_eq!(config.password.as_ref().map(Secret::expose), Some("hunter2"));
    assert!(!format!("{config:?}").contains("hunter2"));
    assert!(!serde_json::to_string(&config).expect("JSON").contains("hunter2"));
    let error = Config::from_url("redis://user:hunter2@host:port").expect_err("a bad port");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
}
