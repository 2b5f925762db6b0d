//! In async code: an error at once, never a deadlock or a panic. Where a thread may block, it works.

use latchwork::blocking::{self, Coordinator};
use latchwork::{Error, ErrorKind, Release, Result};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, block_in_place, spawn_blocking};

use super::{connect, store};

fn runtimes() -> [Runtime; 2] {
    let mut builders = [Builder::new_current_thread(), Builder::new_multi_thread()];
    builders.each_mut().map(|builder| builder.enable_all().build().expect("a runtime"))
}

fn is_refused<T: std::fmt::Debug>(answer: Result<T>) {
    let error: Error = answer.expect_err("in async code");
    assert_eq!(error.kind(), &ErrorKind::InAsyncCode, "{error}");
    assert!(error.to_string().contains("spawn_blocking") && !error.is_retryable(), "{error}");
}

/// Calls of every shape, in async code.
fn every_shape_is_refused(coordinator: &Coordinator) {
    is_refused(blocking::connect("memory://"));
    is_refused(blocking::connect_lazy("memory://"));
    is_refused(blocking::with("memory://", |_| Ok::<_, Error>(())));
    is_refused(coordinator.mutex("free").and_then(|mutex| mutex.acquire()));
    is_refused(coordinator.mutex("free").and_then(|mutex| mutex.try_acquire()));
    is_refused(coordinator.counter("count").and_then(|counter| counter.add(1)));
    is_refused(coordinator.clients().into_iter().next().expect("an answer"));
    is_refused(coordinator.close());
}

#[test]
fn a_call_in_async_code_is_refused_and_changes_nothing() {
    let coordinator = connect(&store());
    let held = coordinator.mutex("held").expect("a key").acquire().expect("free");
    for runtime in runtimes() {
        runtime.block_on(async {
            every_shape_is_refused(&coordinator);
            is_refused(held.release());
            is_refused(held.lost().wait());
            is_refused(held.states().next().expect("an answer"));
            // The task goes on, though its budget of steps was used up.
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            let other = coordinator.clone();
            tokio::spawn(async move { every_shape_is_refused(&other) }).await.expect("no panic");
            let other = coordinator.clone();
            let local = LocalSet::new();
            let task = local.spawn_local(async move { every_shape_is_refused(&other) });
            local.run_until(task).await.expect("no panic");
        });
    }
    assert!(held.is_held());
    assert_eq!(held.release().expect("it still is"), Release::Released);
    assert_eq!(coordinator.counter("count").and_then(|counter| counter.get()).expect("read"), 0);
    coordinator.close().expect("closed");
}

#[test]
fn a_thread_of_a_runtime_that_may_block_calls_as_any_other() {
    let coordinator = connect(&store());
    let counter = coordinator.counter("count").expect("a key");
    for runtime in runtimes() {
        let counted = counter.clone();
        runtime
            .block_on(async { spawn_blocking(move || counted.add(1)).await })
            .expect("no panic")
            .expect("added");
        let _entered = runtime.enter();
        counter.add(1).expect("it has only entered the runtime");
    }
    let runtime = Builder::new_multi_thread().build().expect("a runtime");
    let counted = counter.clone();
    let in_place = runtime.spawn(async move { block_in_place(|| counted.add(1)) });
    runtime.block_on(in_place).expect("no panic").expect("added");
    assert_eq!(counter.get().expect("read"), 5);
    coordinator.close().expect("closed");
}

#[test]
fn what_is_dropped_in_async_code_is_given_back() {
    let url = store();
    for runtime in runtimes() {
        let coordinator = connect(&url);
        let mutex = coordinator.mutex("held").expect("a key");
        let held = mutex.acquire().expect("free");
        runtime.block_on(async move { drop(held) });
        assert_eq!(mutex.acquire().expect("it was given back").release().expect("held"), Release::Released);
        // The last handle of all: its thread ends its runtime, which could not be dropped here.
        let held = mutex.acquire().expect("free");
        runtime.block_on(async move { drop((held, mutex, coordinator)) });
        let other = connect(&url);
        let waited = other.mutex("held").expect("a key").acquire_within(super::PATIENCE);
        drop(waited.expect("given back behind the last handle"));
        other.close().expect("closed");
    }
}
