//! Every recipe refuses what is too long, too short or zero, names the argument, and asks the
//! server nothing.

use std::time::Duration;

use latchwork_core::recipes::Acquire;
use latchwork_core::{Config, Coordinator, Error, Owner, connect, memory};

const KEY: &str = "a";

async fn private() -> Coordinator {
    let config = Config::from_url("memory://").expect("a good URL");
    connect(&[memory::connector()], &config).await.expect("connected")
}

/// Acquires in every way, with these options and an owner of this label. Each must be refused.
async fn refused(coordinator: &Coordinator, options: &Acquire, label: &str) -> Vec<(&'static str, Error)> {
    let (mutex, rwlock) = (coordinator.mutex(KEY).expect("good"), coordinator.rwlock(KEY).expect("good"));
    let (semaphore, reentrant) =
        (coordinator.semaphore(KEY, 2).expect("good"), coordinator.reentrant_mutex(KEY).expect("good"));
    let owner = Owner::new(label);
    let with = || options.clone();
    macro_rules! each {
        ($($call:expr),+ $(,)?) => {
            vec![$((stringify!($call), $call.await.map(drop).expect_err(stringify!($call)))),+]
        };
    }
    let errors = each![
        mutex.acquire_with(with()),
        mutex.try_acquire_with(with()),
        rwlock.read_with(with()),
        rwlock.write_with(with()),
        rwlock.try_read_with(with()),
        rwlock.try_write_with(with()),
        semaphore.acquire_with(1, with()),
        semaphore.try_acquire_with(1, with()),
        reentrant.acquire_as_with(&owner, with()),
        reentrant.try_acquire_as_with(&owner, with()),
    ];
    assert!(mutex.queue(0, 9).await.expect("listed").is_empty(), "nothing was left");
    assert!(rwlock.queue(0, 9).await.expect("listed").is_empty(), "nothing was left");
    assert!(semaphore.queue(0, 9).await.expect("listed").is_empty(), "nothing was left");
    errors
}

#[tokio::test]
async fn a_bad_option_is_named_by_every_way_of_acquiring() {
    let coordinator = private().await;
    let zero = Duration::ZERO;
    for (argument, options) in [
        ("label", Acquire::new().label("l".repeat(4097))),
        // The limit counts bytes, not characters.
        ("label", Acquire::new().label("ü".repeat(2049))),
        ("deadline", Acquire::new().within(zero)),
        ("max_hold", Acquire::new().max_hold(zero)),
        ("hold_at_least", Acquire::new().hold_at_least(zero)),
        (
            "hold_at_least",
            Acquire::new().max_hold(Duration::from_secs(1)).hold_at_least(Duration::from_secs(2)),
        ),
    ] {
        for (call, error) in refused(&coordinator, &options, "me").await {
            assert_eq!((error.argument(), error.key()), (Some(argument), Some(KEY)), "{call}: {error}");
            assert!(error.operation().is_some(), "{call}: {error}");
        }
    }
    coordinator.close().await.expect("closed");
}

#[tokio::test]
async fn an_owners_label_is_checked_where_it_is_used() {
    let coordinator = private().await;
    let owner = Owner::new("o".repeat(4097));
    let (reentrant, rwlock) =
        (coordinator.reentrant_mutex(KEY).expect("good"), coordinator.rwlock(KEY).expect("good"));
    for error in [
        reentrant.acquire_as(&owner).await.map(drop).expect_err("too long"),
        reentrant.try_acquire_as(&owner).await.map(drop).expect_err("too long"),
        owner.scope(reentrant.acquire()).await.map(drop).expect_err("too long"),
        rwlock.read_as(&owner).await.map(drop).expect_err("too long"),
        rwlock.write_as(&owner).await.map(drop).expect_err("too long"),
    ] {
        assert_eq!((error.argument(), error.key()), (Some("label"), Some(KEY)), "{error}");
        assert!(error.to_string().contains("4097"), "{error}");
    }
    // The longest valid label.
    let longest = Owner::new("o".repeat(4096));
    let hold = reentrant.acquire_as(&longest).await.expect("free");
    assert_eq!(reentrant.queue(0, 9).await.expect("listed")[0].label.len(), 4096);
    let _ = hold.release().await.expect("released");
    coordinator.close().await.expect("closed");
}

#[tokio::test]
async fn keys_limits_and_weights_are_refused_by_name() {
    let coordinator = private().await;
    for key in [String::new(), "k".repeat(256), "ü".repeat(128)] {
        for error in [
            coordinator.mutex(&key).map(drop).expect_err("refused"),
            coordinator.reentrant_mutex(&key).map(drop).expect_err("refused"),
            coordinator.rwlock(&key).map(drop).expect_err("refused"),
            coordinator.semaphore(&key, 1).map(drop).expect_err("refused"),
            coordinator.semaphore_as_stored(&key).map(drop).expect_err("refused"),
        ] {
            assert_eq!(error.argument(), Some("key"), "{error}");
        }
    }
    assert_eq!(coordinator.semaphore(KEY, 0).expect_err("refused").argument(), Some("limit"));
    let mut semaphore = coordinator.semaphore(KEY, 2).expect("good");
    assert_eq!(semaphore.set_limit(0).await.expect_err("refused").argument(), Some("limit"));
    for weight in [0, 3, u32::MAX] {
        for error in [
            semaphore.acquire(weight).await.map(drop).expect_err("refused"),
            semaphore.try_acquire(weight).await.map(drop).expect_err("refused"),
        ] {
            assert_eq!((error.argument(), error.key()), (Some("weight"), Some(KEY)), "{error}");
        }
    }
    coordinator.close().await.expect("closed");
}
