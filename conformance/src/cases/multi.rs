//! The MultiLock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use latchwork_core::recipes::{MultiLock, MultiMember};
use latchwork_core::{Ended, ErrorKind, Hold, LostReason, Owner};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use super::rwlock::rwlock;
use super::semaphore::{permits, semaphore};
use crate::actions::{
    Waiter, acquire, acquire_and_release, listing, mutex, queue_up, reentrant, release, release_all,
    try_acquire,
};
use crate::bounds::{CLEAN_UP, LONG_TTL, NOISE, PATIENCE};
use crate::case::cases;
use crate::errors::{fails_for, is_lost, refuses};
use crate::exclusive::Lock;
use crate::testbed::Client;
use crate::waits::{contend, soon, until, within};

pub(super) fn mutexes(client: &Client, keys: &[&str]) -> MultiLock {
    MultiLock::new(keys.iter().map(|key| reentrant(client, key))).expect("good members")
}

/// On some backends a try is in the queue for a moment.
async fn it_waits_for(mutex: &Lock) {
    until("it waits", || async {
        let Some(seen) = second(mutex).await else { return false };
        tokio::time::sleep(NOISE / 3).await;
        second(mutex).await == Some(seen)
    })
    .await;
}

async fn second(mutex: &Lock) -> Option<u64> {
    listing(mutex).await.get(1).map(|entry| entry.sequence)
}

fn mixed(client: &Client) -> MultiLock {
    MultiLock::new([
        MultiMember::permits(&semaphore(client, "permits", 3), 2),
        MultiMember::from(reentrant(client, "mutex")),
        MultiMember::write(&rwlock(client, "write")),
        MultiMember::read(&rwlock(client, "read")),
        MultiMember::from(reentrant(client, "reentrant")),
    ])
    .expect("good members")
}

cases! {
    "MULTI-WHOLE" =>
    /// locks of all recipes and modes are held together or not at all; each keeps the rules of its recipe, and tokens
    /// come in the given order
    async fn multi_holds_all_or_none(context) {
        let [one, two] = context.clients().await;
        let (lock, owner) = (mixed(&one), Owner::new("one"));
        let permit = permits(&semaphore(&two, "permits", 3), 1).await;
        let reader = soon("read", rwlock(&two, "read").read()).await.expect("acquired");
        let guard = soon("acquire", lock.acquire().by(&owner)).await.expect("acquired while a reader and a permit are held");
        assert!(soon("try", semaphore(&two, "permits", 3).try_acquire(1)).await.expect("answered").is_none());
        assert!(soon("try", rwlock(&two, "write").try_read()).await.expect("answered").is_none());
        assert!(soon("try", rwlock(&two, "read").try_write()).await.expect("answered").is_none());
        assert!(try_acquire(&mutex(&two, "mutex")).await.is_none());
        assert_eq!(reentrant(&one, "reentrant").hold_count(&owner), 1);
        let fences: Vec<_> = guard.tokens().iter().map(|token| token.map(latchwork_core::Token::sequence)).collect();
        let mutex_entry = listing(&mutex(&two, "mutex")).await;
        let expected = (None, Some(mutex_entry[0].sequence), None);
        assert_eq!((fences[0], fences[1], fences[3]), expected, "the tokens must come in the given order");
        guard.release().await.expect("released");
        guard.release().await.expect("released");

        let writer = soon("write", rwlock(&two, "write").write()).await.expect("acquired");
        assert!(soon("try", lock.try_acquire().by(&owner)).await.expect("answered").is_none());
        acquire_and_release(&mutex(&two, "mutex")).await;
        release_all([Hold::from(permit), reader.into(), writer.into()]).await;
    }

    "MULTI-WHOLE" =>
    /// one deadline covers all members; when it passes, the error names the missing key, and no node stays
    async fn multi_within_is_one_deadline(context) {
        let [one, two] = context.clients().await;
        let lock = mutexes(&one, &["b", "c", "a"]);
        let held = acquire(&mutex(&two, "b")).await;
        let from = Instant::now();
        let late = within(WITHIN + context.late(), "the deadline", lock.acquire().within(WITHIN)).await;
        fails_for(late, ErrorKind::Timeout, "b", "b is held");
        assert!(from.elapsed() >= WITHIN, "after {:?}", from.elapsed());
        for key in ["a", "c"] {
            acquire_and_release(&mutex(&two, key)).await;
        }
        until("b has its holder only", || async { listing(&mutex(&two, "b")).await.len() == 1 }).await;
        held.release().await.expect("released");
    }

    "MULTI-WHOLE" =>
    /// acquired members are released when another member fails, and when the future is dropped
    async fn multi_failure_or_drop_releases_the_acquired_members(context) {
        let [one, two] = context.clients().await;
        release(permits(&semaphore(&two, "limit", 2), 1).await).await;
        let other_limit = MultiMember::permits(&semaphore(&one, "limit", 3), 1);
        let conflict = MultiLock::new([MultiMember::from(reentrant(&one, "a")), other_limit]).expect("good members");
        fails_for(soon("the conflict", conflict.acquire()).await, ErrorKind::Conflict, "limit", "another limit");
        acquire_and_release(&mutex(&two, "a")).await;

        let held = acquire(&mutex(&two, "b")).await;
        let waiting = Waiter::of(mutexes(&one, &["b", "a"]).acquire());
        it_waits_for(&mutex(&two, "b")).await;
        assert!(try_acquire(&mutex(&two, "a")).await.is_none(), "it waits for b without a");
        drop(waiting);
        acquire_and_release(&mutex(&two, "a")).await;
        held.release().await.expect("released");
    }

    "MULTI-ORDER" =>
    /// tasks of several clients acquire random keys in random order: never two holders at once, and never a deadlock
    async fn multi_in_any_order_never_deadlocks(context) {
        const KEYS: [&str; 4] = ["a", "b", "c", "d"];
        let clients: [_; 3] = context.clients().await;
        let inside: Arc<[AtomicBool; KEYS.len()]> = Arc::default();
        let mut random = StdRng::seed_from_u64(context.seed());
        contend(6, |task, held| {
            let (client, inside, seed) = (clients[task % 3].coordinator.clone(), Arc::clone(&inside), random.random());
            async move {
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
            }
        })
        .await;
    }

    "MULTI-ORDER" =>
    /// locks of several coordinators are ordered by the names of the coordinators
    async fn multi_spans_coordinators_with_names(context) {
        let named = |name: &'static str| context.client_by(LONG_TTL, |config| config.name = Some(name.to_owned()));
        let (one, two) = (named("one").await, named("two").await);
        let member = |client: &Client, key: &str| MultiMember::from(reentrant(client, key));
        let lock = MultiLock::new([member(&two, "b"), member(&one, "a")]).expect("two names");
        let guard = soon("acquire", lock.acquire()).await.expect("acquired");
        for (client, key) in [(&one, "b"), (&two, "a")] {
            assert!(try_acquire(&mutex(client, key)).await.is_none(), "{key} is free");
        }
        guard.release().await.expect("released");
        let same = named("one").await;
        refuses(MultiLock::new([member(&one, "a"), member(&same, "b")]), "name");
    }

    "MULTI-LOSS" =>
    /// a hold is lost when one of its locks is lost, which the error names; its release releases the others
    async fn multi_is_lost_with_any(context) {
        let (one, operator) = (context.quiet().await, context.client().await);
        let guard = soon("acquire", mutexes(&one, &["a", "b", "c"]).acquire()).await.expect("acquired");
        let lost = guard.lost();
        assert!(guard.is_held() && lost.ended().is_none());
        let removed = guard.tokens()[1].expect("a mutex").sequence();
        assert!(soon("force", mutex(&operator, "b").force_release(removed)).await.expect("answered"));
        let ended = within(CLEAN_UP, "the loss", guard.lost()).await;
        assert_eq!((ended, lost.key()), (Ended::Lost(LostReason::Revoked), "b"));
        assert_eq!(is_lost(guard.check(), LostReason::Revoked).key(), Some("b"));
        assert!(!guard.is_held() && guard.remaining().is_zero());
        assert!(try_acquire(&mutex(&operator, "a")).await.is_none(), "the others stay until the release");
        is_lost(soon("release", guard.release()).await, LostReason::Revoked);
        for key in ["a", "b", "c"] {
            acquire_and_release(&mutex(&operator, key)).await;
        }
    }

    "MULTI-LOSS" =>
    /// the removal of one lock by an operator, while others are awaited, ends the acquisition, and the error names the
    /// key
    async fn multi_hears_a_loss_while_it_waits(context) {
        let (one, operator) = (context.quiet().await, context.client().await);
        let held = acquire(&mutex(&operator, "b")).await;
        let waiting = Waiter::of(mutexes(&one, &["a", "b"]).acquire());
        it_waits_for(&mutex(&operator, "b")).await;
        let entry = listing(&mutex(&operator, "a")).await[0].sequence;
        assert!(soon("force", mutex(&operator, "a").force_release(entry)).await.expect("answered"));
        let ended = within(CLEAN_UP, "the loss", waiting.outcome()).await;
        assert_eq!(is_lost(ended, LostReason::Revoked).key(), Some("a"));
        until("b has its holder only", || async { listing(&mutex(&operator, "b")).await.len() == 1 }).await;
        held.release().await.expect("released");
    }

    "MULTI-BOUNDS" =>
    /// a fixed end starts when all are held, and ends all of them; a least time keeps all of them, and no part of a
    /// refused acquisition
    async fn multi_bounds_begin_when_all_are_held(context) {
        let [one, two] = context.clients().await;
        let lock = mutexes(&one, &["a", "b"]);
        let holder = acquire(&mutex(&two, "b")).await;
        let waiting = Waiter::of(lock.acquire().max_hold(FIXED));
        it_waits_for(&mutex(&two, "b")).await;
        let behind = queue_up(&mutex(&two, "a"), 2).await;
        tokio::time::sleep(FIXED + NOISE / 3).await;
        assert!(!behind.is_finished(), "the fixed end started before all were held");
        holder.release().await.expect("released");
        let guard = waiting.guard().await;
        assert_eq!(within(FIXED + context.late(), "the end", guard.lost()).await, Ended::Lost(LostReason::MaxHold));
        behind.guard().await.release().await.expect("released");
        acquire_and_release(&mutex(&two, "b")).await;
        drop(guard);

        let holder = acquire(&mutex(&two, "b")).await;
        assert!(soon("try", lock.try_acquire().min_hold(PATIENCE)).await.expect("answered").is_none());
        let from = Instant::now();
        acquire_and_release(&mutex(&two, "a")).await;
        let bound = if context.testbed.is_paused() { FIXED } else { PATIENCE / 2 };
        assert!(from.elapsed() < bound, "a part of a refused acquisition was kept");
        holder.release().await.expect("released");
        let from = Instant::now();
        release(soon("acquire", lock.acquire().min_hold(FIXED)).await.expect("acquired")).await;
        for key in ["a", "b"] {
            acquire_and_release(&mutex(&two, key)).await;
        }
        assert!(from.elapsed() >= FIXED, "released after {:?}", from.elapsed());
    }
}

/// A timeout is reported only after answers of all members.
const WITHIN: Duration = NOISE.saturating_mul(2);
const FIXED: Duration = Duration::from_millis(1000);
