//! The MultiLock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::recipes::{MultiLock, MultiMember};
use latchwork_core::{Ended, ErrorKind, LostReason, Owner};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::rwlock::rwlock;
use super::semaphore::{permits, semaphore};
use crate::actions::{acquire, listing, mutex, queue_up, try_acquire};
use crate::bounds::{CLEAN_UP, LONG_TTL, NOISE, PATIENCE, QUIET_TTL};
use crate::case::cases;
use crate::exclusive::Lock;
use crate::testbed::Client;
use crate::waits::{all_held, soon, until, within};

/// Mutexes of one client as one, in the given order.
pub(super) fn mutexes(client: &Client, keys: &[&str]) -> MultiLock {
    let member = |key: &&str| client.coordinator.mutex(*key).expect("a good key");
    MultiLock::new(keys.iter().map(member)).expect("good members")
}

/// Waits until somebody stands behind the holder. A try is there for a moment too, where it is not clean.
async fn it_waits_for(mutex: &Lock) {
    until("it waits", || async {
        let Some(seen) = second(mutex).await else { return false };
        tokio::time::sleep(NOISE / 3).await;
        second(mutex).await == Some(seen)
    })
    .await;
}

/// The number of who stands behind the holder: no other has had it.
async fn second(mutex: &Lock) -> Option<u64> {
    listing(mutex).await.get(1).map(|entry| entry.sequence)
}

/// One of each recipe and mode.
fn mixed(client: &Client) -> MultiLock {
    let reentrant = client.coordinator.mutex("reentrant").expect("a good key");
    MultiLock::new([
        MultiMember::permits(&semaphore(client, "permits", 3), 2),
        MultiMember::from(client.coordinator.mutex("mutex").expect("a good key")),
        MultiMember::write(&rwlock(client, "write")),
        MultiMember::read(&rwlock(client, "read")),
        MultiMember::from(reentrant),
    ])
    .expect("good members")
}

cases! {
    "MULTI-WHOLE" =>
    /// locks of all recipes and modes are held together or not at all; each is held as its recipe
    /// says, and tokens come in the given order
    async fn multi_holds_all_or_none(context) {
        let (one, two) = (context.client().await, context.client().await);
        let (lock, owner) = (mixed(&one), Owner::new("one"));
        let permit = permits(&semaphore(&two, "permits", 3), 1).await;
        let reader = soon("read", rwlock(&two, "read").read()).await.expect("acquired");
        let guard = soon("acquire", lock.acquire().by(&owner)).await.expect("acquired beside a reader and a permit");
        assert!(soon("try", semaphore(&two, "permits", 3).try_acquire(1)).await.expect("answered").is_none());
        assert!(soon("try", rwlock(&two, "write").try_read()).await.expect("answered").is_none());
        assert!(soon("try", rwlock(&two, "read").try_write()).await.expect("answered").is_none());
        assert!(try_acquire(&mutex(&two, "mutex")).await.is_none());
        // The owner holds the reentrant mutex, and may enter it again.
        let reentrant = one.coordinator.mutex("reentrant").expect("a good key");
        assert_eq!(reentrant.hold_count(&owner), 1);
        let fences: Vec<_> = guard.tokens().iter().map(|token| token.map(latchwork_core::Token::sequence)).collect();
        let mutex_entry = listing(&mutex(&two, "mutex")).await;
        assert_eq!((fences[0], fences[1], fences[3]), (None, Some(mutex_entry[0].sequence), None), "in the given order");
        guard.release().await.expect("released");
        guard.release().await.expect("released");

        // One that is taken keeps all others free.
        let writer = soon("write", rwlock(&two, "write").write()).await.expect("acquired");
        assert!(soon("try", lock.try_acquire().by(&owner)).await.expect("answered").is_none());
        acquire(&mutex(&two, "mutex")).await.release().await.expect("released");
        permit.release().await.expect("released");
        reader.release().await.expect("released");
        writer.release().await.expect("released");
    }

    "MULTI-WHOLE" =>
    /// one deadline covers all; when it passes, the error names the key that was waited for, and
    /// nothing stays
    async fn multi_within_is_one_deadline(context) {
        let (one, two) = (context.client().await, context.client().await);
        let lock = mutexes(&one, &["b", "c", "a"]);
        let held = acquire(&mutex(&two, "b")).await;
        let from = Instant::now();
        let late = within(WITHIN + context.late(), "the deadline", lock.acquire().within(WITHIN)).await;
        let error = late.expect_err("b is held");
        assert_eq!((error.kind(), error.key()), (ErrorKind::Timeout, Some("b")), "{error}");
        assert!(from.elapsed() >= WITHIN, "after {:?}", from.elapsed());
        for key in ["a", "c"] {
            acquire(&mutex(&two, key)).await.release().await.expect("released");
        }
        until("b has its holder only", || async { listing(&mutex(&two, "b")).await.len() == 1 }).await;
        held.release().await.expect("released");
    }

    "MULTI-WHOLE" =>
    /// what was acquired is given back when another member fails, and when the future is dropped
    async fn multi_gives_back_what_it_held(context) {
        let (one, two) = (context.client().await, context.client().await);
        // The limit is another: a conflict, after the mutex was acquired.
        permits(&semaphore(&two, "limit", 2), 1).await.release().await.expect("released");
        let conflict = MultiLock::new([
            MultiMember::from(one.coordinator.mutex("a").expect("a good key")),
            MultiMember::permits(&semaphore(&one, "limit", 3), 1),
        ])
        .expect("good members");
        let error = soon("the conflict", conflict.acquire()).await.expect_err("another limit");
        assert_eq!((error.kind(), error.key()), (ErrorKind::Conflict, Some("limit")), "{error}");
        acquire(&mutex(&two, "a")).await.release().await.expect("released");

        let held = acquire(&mutex(&two, "b")).await;
        let lock = mutexes(&one, &["b", "a"]);
        let waiting = tokio::spawn({ let lock = lock.clone(); async move { lock.acquire().await } });
        it_waits_for(&mutex(&two, "b")).await;
        assert!(try_acquire(&mutex(&two, "a")).await.is_none(), "it waits for b without a");
        waiting.abort();
        acquire(&mutex(&two, "a")).await.release().await.expect("released");
        held.release().await.expect("released");
    }

    "MULTI-ORDER" =>
    /// tasks of several clients that acquire random keys in random order: never two at once, and
    /// never a deadlock
    async fn multi_in_any_order_never_deadlocks(context) {
        const KEYS: [&str; 4] = ["a", "b", "c", "d"];
        let clients = [context.client().await, context.client().await, context.client().await];
        let inside: Arc<[AtomicBool; KEYS.len()]> = Arc::default();
        let mut random = StdRng::seed_from_u64(context.seed());
        let (held, holds) = mpsc::unbounded_channel();
        let tasks: Vec<_> = (0..6)
            .map(|task| {
                let held = held.clone();
                let (client, inside, seed) = (clients[task % 3].coordinator.clone(), Arc::clone(&inside), random.random());
                tokio::spawn(async move {
                    let mut random = StdRng::seed_from_u64(seed);
                    for _ in 0..4 {
                        let keys: Vec<_> = KEYS.sample(&mut random, 2).copied().collect();
                        let members = keys.iter().map(|key| client.mutex(*key).expect("a good key"));
                        let guard = MultiLock::new(members).expect("two keys").acquire().await.expect("acquired");
                        let places = keys.iter().filter_map(|key| KEYS.iter().position(|known| known == key));
                        for place in places.clone() {
                            assert!(!inside[place].swap(true, Ordering::AcqRel), "two hold {}", KEYS[place]);
                        }
                        tokio::task::yield_now().await;
                        for place in places {
                            inside[place].store(false, Ordering::Release);
                        }
                        guard.release().await.expect("released");
                        held.send(()).expect("counted");
                    }
                })
            })
            .collect();
        drop(held);
        all_held(tasks, holds).await;
    }

    "MULTI-ORDER" =>
    /// locks of several coordinators go by the names of these
    async fn multi_spans_coordinators_with_names(context) {
        let named = |name: &str| {
            let mut config = context.config(LONG_TTL);
            config.name = Some(name.to_owned());
            config
        };
        let (one, two) = (context.client_with(&named("one")).await, context.client_with(&named("two")).await);
        let member = |client: &Client, key: &str| MultiMember::from(client.coordinator.mutex(key).expect("a good key"));
        let lock = MultiLock::new([member(&two, "b"), member(&one, "a")]).expect("two names");
        let guard = soon("acquire", lock.acquire()).await.expect("acquired");
        for (client, key) in [(&one, "b"), (&two, "a")] {
            assert!(try_acquire(&mutex(client, key)).await.is_none(), "{key} is free");
        }
        guard.release().await.expect("released");
        let same = context.client_with(&named("one")).await;
        let error = MultiLock::new([member(&one, "a"), member(&same, "b")]).expect_err("one name twice");
        assert_eq!(error.argument(), Some("name"), "{error}");
    }

    "MULTI-LOSS" =>
    /// it is lost when one of its locks is lost, which it names; its release gives the others back
    async fn multi_is_lost_with_any(context) {
        // It is told: by itself it would ask later than the bound.
        let (one, operator) = (context.client_with(&context.config(QUIET_TTL)).await, context.client().await);
        let guard = soon("acquire", mutexes(&one, &["a", "b", "c"]).acquire()).await.expect("acquired");
        let lost = guard.lost();
        assert!(guard.is_held() && lost.ended().is_none());
        let removed = guard.tokens()[1].expect("a mutex").sequence();
        assert!(soon("force", mutex(&operator, "b").force_release(removed)).await.expect("answered"));
        let ended = within(CLEAN_UP, "the loss", guard.lost()).await;
        assert_eq!((ended, lost.key()), (Ended::Lost(LostReason::Revoked), "b"));
        let error = guard.check().expect_err("lost");
        assert_eq!((error.key(), error.lost_reason()), (Some("b"), Some(LostReason::Revoked)), "{error}");
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert!(try_acquire(&mutex(&operator, "a")).await.is_none(), "the others stay until the release");
        let lost = soon("release", guard.release()).await.expect_err("it was lost");
        assert_eq!(lost.lost_reason(), Some(LostReason::Revoked));
        for key in ["a", "b", "c"] {
            acquire(&mutex(&operator, key)).await.release().await.expect("released");
        }
    }

    "MULTI-LOSS" =>
    /// one that is removed by an operator while others are waited for ends the acquisition, and
    /// names the key
    async fn multi_hears_a_loss_while_it_waits(context) {
        // As above.
        let (one, operator) = (context.client_with(&context.config(QUIET_TTL)).await, context.client().await);
        let held = acquire(&mutex(&operator, "b")).await;
        let waiting = tokio::spawn({ let lock = mutexes(&one, &["a", "b"]); async move { lock.acquire().await } });
        it_waits_for(&mutex(&operator, "b")).await;
        let entry = listing(&mutex(&operator, "a")).await[0].sequence;
        assert!(soon("force", mutex(&operator, "a").force_release(entry)).await.expect("answered"));
        let error = within(CLEAN_UP, "the loss", waiting).await.expect("no panic").expect_err("removed");
        assert_eq!((error.key(), error.lost_reason()), (Some("a"), Some(LostReason::Revoked)), "{error}");
        until("b has its holder only", || async { listing(&mutex(&operator, "b")).await.len() == 1 }).await;
        held.release().await.expect("released");
    }

    "MULTI-BOUNDS" =>
    /// a fixed end begins when all are held, and ends all of them; a least time keeps all of them,
    /// and nothing of an acquisition that was refused
    async fn multi_bounds_begin_when_all_are_held(context) {
        let (one, two) = (context.client().await, context.client().await);
        let lock = mutexes(&one, &["a", "b"]);
        let holder = acquire(&mutex(&two, "b")).await;
        let waiting = tokio::spawn({ let lock = lock.clone(); async move { lock.acquire().max_hold(FIXED).await } });
        it_waits_for(&mutex(&two, "b")).await;
        let behind = queue_up(&mutex(&two, "a"), 2).await;
        tokio::time::sleep(FIXED + NOISE / 3).await;
        assert!(!behind.is_finished(), "the fixed end began before all were held");
        holder.release().await.expect("released");
        let guard = soon("acquire", waiting).await.expect("no panic").expect("acquired");
        assert_eq!(within(FIXED + context.late(), "the end", guard.lost()).await, Ended::Lost(LostReason::MaxHold));
        behind.guard().await.release().await.expect("released");
        acquire(&mutex(&two, "b")).await.release().await.expect("released");
        drop(guard);

        let holder = acquire(&mutex(&two, "b")).await;
        assert!(soon("try", lock.try_acquire().min_hold(PATIENCE)).await.expect("answered").is_none());
        let from = Instant::now();
        acquire(&mutex(&two, "a")).await.release().await.expect("released");
        // On a paused clock it takes no time.
        let bound = if context.testbed.is_paused() { FIXED } else { PATIENCE / 2 };
        assert!(from.elapsed() < bound, "a refused one is kept");
        holder.release().await.expect("released");
        let from = Instant::now();
        let guard = soon("acquire", lock.acquire().min_hold(FIXED)).await.expect("acquired");
        guard.release().await.expect("released");
        for key in ["a", "b"] {
            acquire(&mutex(&two, key)).await.release().await.expect("released");
        }
        assert!(from.elapsed() >= FIXED, "given back after {:?}", from.elapsed());
    }
}

/// Long enough for answers of all members: without them it would be no timeout.
const WITHIN: Duration = NOISE.saturating_mul(2);
const FIXED: Duration = Duration::from_millis(1000);
