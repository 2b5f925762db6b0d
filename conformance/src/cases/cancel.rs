//! NODE-CANCEL: futures of every recipe, dropped at random instants and at each of their await points.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use latchwork_core::recipes::Acquire;
use latchwork_core::{ErrorKind, Hold, Owner, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::Notify;

use super::futures::{Prepared, PublicFuture, Site, TABLE};
use crate::adapter::Adapter;
use crate::case::cases;
use crate::exclusive::Lock;
use crate::kit::{QUIET_TTL, acquire, after_polls, after_polls_and_a_wake, listing, soon, until, within};
use crate::testbed::Client;

/// The environment variable that repeats the random choices of a run that printed it.
const SEED: &str = "LATCHWORK_SEED";
/// So many acquisitions are dropped before they were over.
const DROPS: usize = 10_000;
// A client's join waits until its own departures from that queue are settled: many clients and two keys, so that most of what
// is dropped has been sent.
const CLIENTS: usize = 16;
const TASKS: usize = 48;
const KEYS: [&str; 2] = ["a", "b"];
const PERMITS: u32 = 3;
/// Nobody waits longer: less than a re-check at [`QUIET_TTL`], which would hide that a waiter was forgotten.
const BOUND: Duration = Duration::from_secs(10);

cases! {
    "NODE-CANCEL" =>
    /// 10,000 acquisitions of every recipe, dropped at random instants by contending clients, leave no node and no stuck waiter
    async fn node_cancel_ten_thousand_at_random_instants(scene) {
        let seed = match env::var(SEED) {
            Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{SEED} is a number, not {seed:?}")),
            Err(_) => rand::random(),
        };
        eprintln!("{}: {SEED}={seed}", scene.bed.name());
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let client = scene.client_with(&scene.config(QUIET_TTL)).await;
            if scene.bed.is_paused() {
                // A request takes no time there otherwise, and there would be no instant between it and its reply.
                client.link.delay(Duration::from_millis(number as u64 % 4 + 2));
            }
            clients.push(client);
        }
        // The tasks of a client act for one owner, so that one takes over when another is dropped.
        let owners: Vec<_> = (0..CLIENTS).map(|number| Owner::new(format!("owner-{number}"))).collect();
        let inside = Arc::new(KEYS.map(|_| Inside::default()));
        let dropped = Arc::new(AtomicUsize::new(0));
        let tasks: Vec<_> = (0..TASKS)
            .map(|number| {
                let mut contender = Contender {
                    client: clients[number % CLIENTS].clone(),
                    owner: owners[number % CLIENTS].clone(),
                    chance: StdRng::seed_from_u64(u64::wrapping_add(seed, number as u64)),
                    inside: Arc::clone(&inside),
                    dropped: Arc::clone(&dropped),
                };
                tokio::spawn(async move {
                    while contender.dropped.load(Ordering::Acquire) < DROPS {
                        contender.contend().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap_or_else(|error| panic!("{SEED}={seed}: {error}"));
        }
        if scene.bed.is_paused() {
            // A store of our own counts: what was dropped had mostly been sent, and was taken back.
            let requests = scene.stage.requests().await.expect("counted");
            assert!(requests >= 2 * DROPS as u64, "{requests} requests: most of it was dropped before anything was sent");
        }
        for client in &clients {
            for lock in all_locks(client) {
                within(BOUND, "the next admission", lock.acquire()).await.expect("acquired").release().await.expect("released");
            }
        }
        // While all clients live: the end of a lease takes nothing back here.
        for lock in all_locks(&clients[0]) {
            until("nothing stands in the queue", || async { listing(&lock).await.is_empty() }).await;
        }
    }

    "NODE-CANCEL" =>
    /// every future that a user can await, dropped at each of its await points: no node stays, and the next acquires at once
    async fn node_cancel_every_future_at_every_await_point(scene) {
        let mut points = 0;
        for (number, future) in TABLE.iter().enumerate() {
            let key = format!("future-{number}");
            let site = Site::open(scene, future.adapter, key).await;
            if scene.bed.is_paused() {
                site.client.link.delay(Duration::from_millis(20));
            }
            for (contended, woken) in [(false, false), (true, false), (false, true), (true, true)] {
                // A real server is asked often enough by half of them.
                if (future.waits || !contended) && (scene.bed.is_paused() || !woken) {
                    points += at_every_await_point(&site, future, Way { contended, woken }).await;
                }
            }
            site.client.link.heal();
        }
        let delayed = !scene.bed.is_paused() || points >= 5 * TABLE.len();
        assert!(delayed, "{points} await points in all: the delay is not there");
    }
}

/// How a future is dropped.
#[derive(Clone, Copy)]
struct Way {
    /// While another holds, who gives it up then.
    contended: bool,
    /// Once it has been woken, before it knows why.
    woken: bool,
}

/// Drops it after one poll, two polls, … until it is done by then. Answers how often it was dropped.
async fn at_every_await_point(site: &Site<'_>, public: &PublicFuture, way: Way) -> usize {
    let Way { contended, woken } = way;
    let name = public.name;
    for polls in 1..200 {
        let held = match contended {
            true => Some(acquire(&site.theirs).await),
            false => None,
        };
        let Prepared(future) = soon("the preparation", (public.prepare)(site)).await;
        let over = Arc::new(Notify::new());
        // A task of its own, so that nothing wakes it but what it waits for.
        let stepping = tokio::spawn({
            let over = Arc::clone(&over);
            async move {
                let done = match woken {
                    true => after_polls_and_a_wake(polls, future).await,
                    false => after_polls(polls, future).await,
                };
                over.notify_one();
                done.is_some()
            }
        });
        if let Some(held) = held {
            tokio::select! {
                () = until("it stands in the queue", || async { listing(&site.theirs).await.len() == 2 }) => {}
                // It was dropped before it came to stand there, or never waits.
                () = over.notified() => {}
            }
            held.release().await.expect("released");
        }
        let done = stepping.await.expect("no panic");
        let how = format!("{name}, {}, after {polls} polls", if contended { "contended" } else { "free" });
        let how = if woken { format!("{how} and a wake") } else { how };
        let who = format!("{how}: the next admission");
        // Another, and the same client: neither stands behind what was dropped.
        for lock in [&site.theirs, &site.own] {
            within(BOUND, &who, lock.acquire()).await.expect("acquired").release().await.expect("released");
        }
        let left = format!("{how}: nothing stays");
        until(&left, || async { listing(&site.theirs).await.is_empty() }).await;
        if done {
            return polls - 1;
        }
    }
    panic!("{name} is done after fewer polls");
}

/// A handle of each queue that is contended for, which lets nobody in beside it.
fn all_locks(client: &Client) -> Vec<Lock> {
    const GOOD: &str = "a good key";
    let coordinator = &client.coordinator;
    let of_key = |key| {
        let semaphore = coordinator.semaphore(key, PERMITS).expect(GOOD);
        [
            Adapter::Mutex.lock(coordinator, key, None).expect(GOOD),
            Adapter::Reentrant.lock(coordinator, &owned(key), None).expect(GOOD),
            Adapter::Writer.lock(coordinator, key, None).expect(GOOD),
            Lock::permits(semaphore, PERMITS, None),
        ]
    };
    KEYS.into_iter().flat_map(of_key).collect()
}

/// A mutex of owners is no other thing than a mutex: it gets a key of its own, where several tasks of an owner may be inside.
fn owned(key: &str) -> String {
    format!("owned-{key}")
}

/// Who holds, as those who hold know it.
#[derive(Debug, Default)]
struct Inside {
    mutex: AtomicI32,
    // Readers count up, a writer counts a thousand.
    rwlock: AtomicI32,
    permits: AtomicI32,
}

/// A task that acquires this and that, and drops most of it before it is over.
struct Contender {
    client: Client,
    owner: Owner,
    chance: StdRng,
    inside: Arc<[Inside; KEYS.len()]>,
    dropped: Arc<AtomicUsize>,
}

type Acquiring = BoxFuture<'static, Result<Option<Box<dyn Hold>>>>;

/// What a hold adds to a counter, and what the counter may be at most then.
#[derive(Clone, Copy)]
struct Share {
    counter: fn(&Inside) -> &AtomicI32,
    adds: i32,
    most: i32,
}

impl Contender {
    async fn contend(&mut self) {
        let place = self.chance.random_range(0..KEYS.len());
        let (acquiring, share) = self.acquiring(KEYS[place]);
        let polls = self.chance.random_range(1..8);
        let time = Duration::from_micros(self.chance.random_range(0..4_000));
        let answer = match self.chance.random_range(0..10) {
            0 => Some(within(BOUND, "an acquisition that nobody drops", acquiring).await),
            1..6 => after_polls(polls, acquiring).await,
            _ => tokio::time::timeout(time, acquiring).await.ok(),
        };
        let hold = match answer {
            None => {
                self.dropped.fetch_add(1, Ordering::AcqRel);
                return;
            }
            Some(Ok(Some(hold))) => hold,
            Some(Ok(None)) => return,
            Some(Err(error)) => {
                assert_eq!(error.kind(), &ErrorKind::Timeout, "{error}");
                return;
            }
        };
        if let Some(Share { counter, adds, most }) = share {
            let counter = counter(&self.inside[place]);
            let inside = counter.fetch_add(adds, Ordering::AcqRel) + adds;
            assert!(inside <= most, "{inside} inside, {most} at most: {hold:?}");
            tokio::task::yield_now().await;
            counter.fetch_sub(adds, Ordering::AcqRel);
        }
        match self.chance.random_range(0..3) {
            0 => drop(soon("the release", hold.release()).await.expect("released")),
            1 => drop(after_polls(polls, hold.release()).await.map(|released| released.expect("released"))),
            _ => drop(hold),
        }
    }

    fn acquiring(&mut self, key: &str) -> (Acquiring, Option<Share>) {
        fn boxed(hold: impl Hold + 'static) -> Box<dyn Hold> {
            Box::new(hold)
        }
        const GOOD: &str = "a good key";
        let coordinator = &self.client.coordinator;
        let (tries, options) = match self.chance.random_range(0..3) {
            0 => (true, Acquire::new()),
            1 => (false, Acquire::new().within(Duration::from_millis(self.chance.random_range(1..20)))),
            _ => (false, Acquire::new()),
        };
        let of = |counter, adds, most| Some(Share { counter, adds, most });
        match self.chance.random_range(0..5) {
            0 => {
                let lock = coordinator.mutex(key).expect(GOOD);
                let acquiring: Acquiring = match tries {
                    true => Box::pin(async move { Ok(lock.try_acquire().await?.map(boxed)) }),
                    false => Box::pin(async move { lock.acquire_with(options).await.map(boxed).map(Some) }),
                };
                (acquiring, of(|inside| &inside.mutex, 1, 1))
            }
            1 => {
                let lock = coordinator.rwlock(key).expect(GOOD);
                let acquiring: Acquiring = match tries {
                    true => Box::pin(async move { Ok(lock.try_read().await?.map(boxed)) }),
                    false => Box::pin(async move { lock.read_with(options).await.map(boxed).map(Some) }),
                };
                (acquiring, of(|inside| &inside.rwlock, 1, 999))
            }
            2 => {
                let lock = coordinator.rwlock(key).expect(GOOD);
                let acquiring: Acquiring = match tries {
                    true => Box::pin(async move { Ok(lock.try_write().await?.map(boxed)) }),
                    false => Box::pin(async move { lock.write_with(options).await.map(boxed).map(Some) }),
                };
                (acquiring, of(|inside| &inside.rwlock, 1000, 1000))
            }
            3 => {
                let lock = coordinator.semaphore(key, PERMITS).expect(GOOD);
                let weight = self.chance.random_range(1..=PERMITS);
                let acquiring: Acquiring = match tries {
                    true => Box::pin(async move { Ok(lock.try_acquire(weight).await?.map(boxed)) }),
                    false => {
                        Box::pin(async move { lock.acquire_with(weight, options).await.map(boxed).map(Some) })
                    }
                };
                (acquiring, of(|inside| &inside.permits, weight.cast_signed(), PERMITS.cast_signed()))
            }
            _ => {
                let (lock, owner) =
                    (coordinator.reentrant_mutex(owned(key)).expect(GOOD), self.owner.clone());
                let acquiring: Acquiring = match tries {
                    true => Box::pin(async move { Ok(lock.try_acquire_as(&owner).await?.map(boxed)) }),
                    false => {
                        Box::pin(async move { lock.acquire_with(&owner, options).await.map(boxed).map(Some) })
                    }
                };
                (acquiring, None)
            }
        }
    }
}
