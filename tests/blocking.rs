//! `BlockOn` on threads, with memory and with a server of each kind.

use std::future::{pending, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use latchwork::blocking::BlockOn;
use latchwork::{Coordinator, Ended, Error, ErrorKind, LostReason, Result};
use latchwork_servers::{Kind as Server, Options, Server as Started};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking};

/// A store in this process that no other test has.
fn store() -> String {
    static LAST: AtomicU32 = AtomicU32::new(0);
    format!("memory://blocking-{}", LAST.fetch_add(1, Ordering::Relaxed))
}

fn connect(url: &str) -> Coordinator {
    latchwork::connect(url).block_on().unwrap_or_else(|error| panic!("{url}: {error}"))
}

fn runtimes() -> [Runtime; 2] {
    let mut builders = [Builder::new_current_thread(), Builder::new_multi_thread()];
    builders.each_mut().map(|builder| builder.enable_all().build().expect("a runtime"))
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<T>) {
    let error = answer.expect_err("in async code");
    assert_eq!(error.kind(), ErrorKind::InAsyncCode, "{error}");
    assert!(error.to_string().contains("spawn_blocking") && !error.is_retryable(), "{error}");
}

/// Calls of every shape, in async code.
fn every_shape_is_refused(coordinator: &Coordinator) {
    let counter = coordinator.counter("count").expect("a key");
    assert_refused(latchwork::connect("memory://").block_on());
    assert_refused(counter.add(1).block_on());
    assert_refused(counter.add(1).block_on_timeout(Duration::MAX));
    assert_refused(async { panic!("it is not polled") }.block_on::<(), Error>());
}

#[test]
fn call_in_async_code_is_refused_and_changes_nothing() {
    let coordinator = connect(&store());
    let held = coordinator.mutex("held").expect("a key").acquire().block_on().expect("free");
    for runtime in runtimes() {
        runtime.block_on(async {
            every_shape_is_refused(&coordinator);
            assert_refused(held.release().block_on());
            assert_refused(held.lost().block_on());
            // The task continues, although the probe has used up its budget of steps.
            tokio::task::yield_now().await;
            let other = coordinator.clone();
            tokio::spawn(async move { every_shape_is_refused(&other) }).await.expect("no panic");
            let other = coordinator.clone();
            let local = LocalSet::new();
            let task = local.spawn_local(async move { every_shape_is_refused(&other) });
            local.run_until(task).await.expect("no panic");
        });
    }
    assert!(held.is_held());
    let counted = coordinator.counter("count").expect("a key").get().block_on().expect("read");
    assert_eq!(counted, 0);
    coordinator.close().block_on().expect("closed");
}

#[test]
fn thread_of_a_runtime_that_may_block_calls_as_any_other() {
    let coordinator = connect(&store());
    let counter = coordinator.counter("count").expect("a key");
    for runtime in runtimes() {
        let counted = counter.clone();
        let added = runtime.block_on(async { spawn_blocking(move || counted.add(1).block_on()).await });
        added.expect("no panic").expect("added");
        let _entered = runtime.enter();
        counter.add(1).block_on().expect("it has only entered the runtime");
    }
    let runtime = Builder::new_multi_thread().build().expect("a runtime");
    let counted = counter.clone();
    let in_place = runtime.spawn(async move { block_in_place(|| counted.add(1).block_on()) });
    runtime.block_on(in_place).expect("no panic").expect("added");
    assert_eq!(counter.get().block_on().expect("read"), 5);
    coordinator.close().block_on().expect("closed");
}

#[test]
fn hold_dropped_without_a_runtime_or_in_async_code_is_released() {
    let coordinator = connect(&store());
    let mutex = coordinator.mutex("held").expect("a key");
    drop(mutex.acquire().block_on().expect("free"));
    for runtime in runtimes() {
        let held = mutex.acquire().block_on().expect("the drop has released it");
        runtime.block_on(async move { drop(held) });
    }
    drop(mutex.acquire().block_on().expect("the drop has released it"));
    coordinator.close().block_on().expect("closed");
}

#[test]
fn bound_ends_a_wait_and_leaves_no_place_in_the_queue() {
    let coordinator = connect(&store());
    let mutex = coordinator.mutex("held").expect("a key");
    let held = mutex.acquire().block_on().expect("free");
    let late = mutex.acquire().block_on_timeout(Duration::from_millis(20)).expect_err("it is held");
    assert_eq!((late.kind(), late.is_retryable()), (ErrorKind::Timeout, false), "{late}");
    held.release().block_on().expect("held");
    drop(mutex.acquire().block_on().expect("the dropped wait has left the queue"));
    // An answer that is ready is not late, with any timeout.
    ready(Ok::<_, Error>(())).block_on_timeout(Duration::ZERO).expect("it is ready");
    let late = pending::<Result<()>>().block_on_timeout(Duration::ZERO).expect_err("it never is");
    assert_eq!(late.kind(), ErrorKind::Timeout);
    coordinator.close().block_on().expect("closed");
}

#[test]
fn thread_that_waits_hears_of_a_loss() {
    let url = store();
    let (coordinator, operator) = (connect(&url), connect(&url));
    let hold = coordinator.mutex("held").expect("a key").acquire().block_on().expect("free");
    let lost = hold.lost();
    let waiting = thread::spawn(move || lost.block_on());
    let states = hold.states().map(Ok::<_, Error>);
    let mutex = operator.mutex("held").expect("a key");
    assert!(mutex.force_release(hold.token().sequence()).block_on().expect("removed"));
    let ended = waiting.join().expect("no panic").expect("waited");
    assert_eq!(ended, Ended::Lost(LostReason::Revoked));
    let work = hold.run(async { panic!("it does not begin") }).block_on();
    assert_eq!(work.expect_err("lost").lost_reason(), Some(LostReason::Revoked));
    let (mut states, mut seen) = (pin!(states), 0);
    while states.try_next().block_on().expect("a state").is_some() {
        seen += 1;
    }
    assert!(seen >= 1, "the last state is the loss");
    coordinator.close().block_on().expect("closed");
    operator.close().block_on().expect("closed");
}

#[test]
fn work_may_block_again_and_its_panic_reaches_the_caller() {
    let url = store();
    let observer = connect(&url);
    let mutex = observer.mutex("held").expect("a key");
    let added = latchwork::with(&url, async |coordinator| coordinator.counter("count")?.add(3).block_on());
    assert_eq!(added.block_on::<_, Error>().expect("nested"), 3);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let work = latchwork::with(&url, async |coordinator| -> Result<()> {
            let _held = coordinator.mutex("held")?.acquire().await?;
            std::panic::resume_unwind(Box::new("it panics"))
        });
        work.block_on()
    }));
    let panic = panicked.expect_err("the work's");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"it panics"));
    drop(mutex.try_acquire().block_on().expect("answered").expect("given back"));
    observer.close().block_on().expect("closed");
}

#[test]
fn threads_of_several_coordinators_exclude_each_other() {
    const THREADS: u32 = 8;
    const TURNS: u32 = 50;
    let url = store();
    let coordinators = [connect(&url), connect(&url)];
    let (inside, done) = (AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let mutex = coordinators[number as usize % 2].mutex("held").expect("a key");
            let (inside, done) = (&inside, &done);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let hold = mutex.acquire().block_on().expect("its turn");
                    assert!(!inside.swap(true, Ordering::SeqCst), "two at a time");
                    thread::yield_now();
                    inside.store(false, Ordering::SeqCst);
                    hold.release().block_on().expect("it was held throughout");
                    done.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert_eq!(done.into_inner(), THREADS * TURNS);
    for coordinator in &coordinators {
        coordinator.close().block_on().expect("closed");
    }
}

#[test]
fn lease_is_renewed_while_no_thread_calls() {
    let coordinator = connect(&(store() + "?ttl=4s"));
    let hold = coordinator.mutex("held").expect("a key").acquire().block_on().expect("free");
    let lease = coordinator.lease();
    let first = lease.deadline();
    while lease.deadline() == first {
        thread::park_timeout(Duration::from_millis(20)); // no event reaches a thread that does not call
        assert!(hold.is_held());
    }
    coordinator.close().block_on().expect("closed");
}

/// A hold, a hand-over and a watch, each by a call that waits on its thread.
fn threads_work_on(url: &str) -> Result<()> {
    let join = if url.contains('?') { '&' } else { '?' };
    // A server is slow just after its start.
    let patient = "ttl=30s&connect_timeout=20s&request_timeout=10s";
    let url = format!("{url}{join}namespace=blocking-{}&{patient}", uuid::Uuid::new_v4());
    let (one, other) = (latchwork::connect(&url).block_on()?, latchwork::connect(&url).block_on()?);
    let hold = one.mutex("mutex")?.acquire().block_on()?;
    let waiting = {
        let mutex = other.mutex("mutex")?;
        thread::spawn(move || mutex.acquire().block_on())
    };
    let value = one.shared_value("value")?;
    let mut watch = other.shared_value("value")?.watch().block_on()?;
    assert!(watch.changed().block_on()?.is_none());
    value.write_while(&hold, "a").block_on()?;
    assert_eq!(&*watch.changed().block_on()?.expect("written").value, b"a");
    let first = hold.token();
    hold.release().block_on()?;
    let next = waiting.join().expect("no panic")?;
    assert!(next.token() > first);
    drop(next);
    assert!(value.delete().block_on()?);
    one.close().block_on()?;
    other.close().block_on()
}

#[test]
fn threads_work_on_memory() {
    threads_work_on(&store()).unwrap_or_else(|error| panic!("{error}"));
}

/// If the environment names a server, the test uses only the servers in the environment.
fn threads_work_on_a_server(kind: Server) {
    let named = |kind: Server| std::env::var(kind.url_variable()).is_ok_and(|url| !url.is_empty());
    if !latchwork::compiled_backends().contains(&kind.name()) {
        return eprintln!("left out: this is a build without the feature {kind}");
    }
    if Server::ALL.into_iter().any(named) && !named(kind) {
        return eprintln!("left out: the environment names servers, but none of {kind}");
    }
    let runtime = Runtime::new().expect("a runtime");
    let server =
        runtime.block_on(Started::start(kind, Options::default())).unwrap_or_else(|error| panic!("{error}"));
    threads_work_on(server.url()).unwrap_or_else(|error| panic!("{kind}: {error}"));
    // A server that the test started is killed by a task of its runtime.
    runtime.block_on(async move { drop(server) });
}

#[test]
fn threads_work_on_redis() {
    threads_work_on_a_server(Server::Redis);
}

#[test]
fn threads_work_on_zookeeper() {
    threads_work_on_a_server(Server::Zookeeper);
}

#[test]
fn threads_work_on_etcd() {
    threads_work_on_a_server(Server::Etcd);
}
