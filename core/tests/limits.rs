use std::time::Duration;

use latchwork_core::recipes::{Acquire, Acquired, Guard};
use latchwork_core::{Coordinator, Error, Limit, Owner};

use crate::common::private;

const KEY: &str = "a";

#[derive(Clone)]
enum Bad {
    Label(String),
    Within,
    MaxHold,
    MinHold,
    AboveMaxHold,
}

impl Bad {
    /// A try does not have [`Bad::Within`].
    fn of<T: Acquired>(&self, request: Acquire<T>) -> Acquire<T> {
        match self {
            Self::Label(label) => request.label(label.as_str()),
            Self::Within => request.label("l".repeat(4097)),
            Self::MaxHold => request.max_hold(Duration::ZERO),
            Self::MinHold => request.min_hold(Duration::ZERO),
            Self::AboveMaxHold => request.max_hold(Duration::from_secs(1)).min_hold(Duration::from_secs(2)),
        }
    }

    fn of_a_wait<G: Guard>(&self, request: Acquire<G>) -> Acquire<G> {
        match self {
            Self::Within => request.within(Duration::ZERO),
            _ => self.of(request),
        }
    }

    fn argument(&self, of_a_try: bool) -> &'static str {
        match self {
            Self::Within if !of_a_try => "within",
            Self::Label(_) | Self::Within => "label",
            Self::MaxHold => "max_hold",
            Self::MinHold | Self::AboveMaxHold => "min_hold",
        }
    }
}

async fn refused(coordinator: &Coordinator, bad: &Bad) -> Vec<(&'static str, Error)> {
    let (mutex, rwlock) = (coordinator.mutex(KEY).expect("good"), coordinator.rwlock(KEY).expect("good"));
    let semaphore = coordinator.semaphore(KEY, 2).expect("good");
    let owner = Owner::new("me");
    macro_rules! each {
        ($($call:expr),+ $(,)?) => {
            vec![$((stringify!($call), $call.await.map(drop).expect_err(stringify!($call)))),+]
        };
    }
    let errors = each![
        bad.of_a_wait(mutex.acquire()),
        bad.of(mutex.try_acquire()),
        bad.of_a_wait(rwlock.read()),
        bad.of_a_wait(rwlock.write()),
        bad.of(rwlock.try_read()),
        bad.of(rwlock.try_write()),
        bad.of_a_wait(semaphore.acquire(1)),
        bad.of(semaphore.try_acquire(1)),
        bad.of_a_wait(mutex.acquire().by(&owner)),
        bad.of(mutex.try_acquire().by(&owner)),
    ];
    for queue in [mutex.queue(), rwlock.queue(), semaphore.queue()] {
        assert!(queue.first(9).await.expect("listed").is_empty(), "nothing was left");
    }
    errors
}

#[tokio::test]
async fn bad_option_is_named_by_every_verb() {
    let coordinator = private().await;
    for bad in [
        Bad::Label("l".repeat(4097)),
        Bad::Label("ü".repeat(2049)),
        Bad::Within,
        Bad::MaxHold,
        Bad::MinHold,
        Bad::AboveMaxHold,
    ] {
        for (call, error) in refused(&coordinator, &bad).await {
            let argument = bad.argument(call.contains("try_"));
            assert_eq!((error.argument(), error.key()), (Some(argument), Some(KEY)), "{call}: {error}");
            assert!(error.operation().is_some(), "{call}: {error}");
        }
    }
    coordinator.close().await.expect("closed");
}

#[tokio::test]
async fn option_after_the_first_poll_is_refused_by_name() {
    let coordinator = private().await;
    let mutex = coordinator.mutex(KEY).expect("good");
    let held = mutex.acquire().await.expect("free");
    let mut waiting = mutex.acquire();
    assert!(futures_util::poll!(&mut waiting).is_pending());
    let late = waiting.max_hold(Duration::from_secs(1)).await.expect_err("it has begun");
    assert_eq!(late.argument(), Some("max_hold"), "{late}");
    held.release().await.expect("held");
    let again = mutex.try_acquire().await.expect("answered").expect("the place is given back");
    again.release().await.expect("held");
    coordinator.close().await.expect("closed");
}

#[tokio::test]
async fn request_that_is_not_polled_sends_nothing() {
    let coordinator = private().await;
    let mutex = coordinator.mutex(KEY).expect("good");
    let request = mutex.acquire();
    assert_eq!(format!("{request:?}"), "Acquire(acquire of \"a\", not started)");
    assert!(mutex.queue().first(9).await.expect("listed").is_empty());
    drop(request);
    coordinator.close().await.expect("closed");
}

#[tokio::test]
async fn an_owners_label_is_checked_where_it_is_used() {
    let coordinator = private().await;
    let owner = Owner::new("o".repeat(4097));
    let (reentrant, rwlock) = (coordinator.mutex(KEY).expect("good"), coordinator.rwlock(KEY).expect("good"));
    for error in [
        reentrant.acquire().by(&owner).await.map(drop).expect_err("too long"),
        reentrant.try_acquire().by(&owner).await.map(drop).expect_err("too long"),
        rwlock.read().by(&owner).await.map(drop).expect_err("too long"),
        rwlock.write().by(&owner).await.map(drop).expect_err("too long"),
    ] {
        assert_eq!((error.argument(), error.key()), (Some("label"), Some(KEY)), "{error}");
        assert!(error.to_string().contains("4097"), "{error}");
    }
    let longest = Owner::new("o".repeat(4096));
    let hold = reentrant.acquire().by(&longest).await.expect("free");
    assert_eq!(reentrant.queue().first(9).await.expect("listed")[0].label.len(), 4096);
    hold.release().await.expect("released");
    coordinator.close().await.expect("closed");
}

#[tokio::test]
async fn keys_limits_and_weights_are_refused_by_name() {
    let coordinator = private().await;
    for key in [String::new(), "k".repeat(256), "ü".repeat(128)] {
        for error in [
            coordinator.rwlock(&key).map(drop).expect_err("refused"),
            coordinator.semaphore(&key, 1).map(drop).expect_err("refused"),
            coordinator.semaphore(&key, Limit::Stored).map(drop).expect_err("refused"),
        ] {
            assert_eq!(error.argument(), Some("key"), "{error}");
        }
    }
    let semaphore = coordinator.semaphore(KEY, 2).expect("good");
    assert_eq!(semaphore.set_limit(0).await.expect_err("refused").argument(), Some("limit"));
    let error = semaphore.try_acquire(u32::MAX).await.map(drop).expect_err("refused");
    assert_eq!((error.argument(), error.key()), (Some("weight"), Some(KEY)), "{error}");
    coordinator.close().await.expect("closed");
}
