//! Many holds that end at once. The leaves in flight are bounded, a leave that a join waits for
//! goes first, and none is forgotten.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use common::{Plant, planted};
use latchwork_core::contracts::{self, Node};
use latchwork_core::memory::Memory;
use latchwork_core::recipes::MutexGuard;
use latchwork_core::{Clock, Config, Coordinator, Error, ErrorKind, Result};
use tokio::time::{Instant, sleep, timeout};

/// The bound on requests of the clean-up at once, as in `core/src/cleanup/worker.rs`.
const AT_ONCE: usize = 64;
const HOLDS: usize = 1000;
/// Longer than any test here takes on the paused clock.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
enum Leave {
    Takes(Duration),
    Refused,
}

/// Counts the client's leaves.
#[derive(Debug)]
struct Leaves {
    how: Leave,
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

#[async_trait]
impl Plant for Leaves {
    async fn leave(&self, node: &dyn Node) -> Result<contracts::Leave> {
        let counted = self.begin();
        match self.how {
            Leave::Takes(time) => sleep(time).await,
            Leave::Refused => {
                sleep(Duration::from_millis(10)).await;
                return Err(Error::new(ErrorKind::Misconfigured, "planted: no space"));
            }
        }
        drop(counted);
        node.leave().await
    }
}

impl Leaves {
    fn begin(&self) -> Underway<'_> {
        self.all.fetch_add(1, Ordering::Relaxed);
        self.most.fetch_max(self.now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        Underway(self)
    }

    fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

struct Underway<'a>(&'a Leaves);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

struct ManyHolds {
    client: Coordinator,
    other: Coordinator,
    leaves: Arc<Leaves>,
}

fn many_holds(how: Leave) -> ManyHolds {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let leaves = Arc::new(Leaves {
        how,
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        all: AtomicUsize::new(0),
    });
    let (other, _) = store.connect(&config).expect("connected");
    ManyHolds { client: planted(&store, &config, &leaves).0, other, leaves }
}

fn key(number: usize) -> String {
    format!("key-{number}")
}

async fn hold_all(client: &Coordinator, count: usize) -> Vec<MutexGuard> {
    let mut guards = Vec::new();
    for number in 0..count {
        guards.push(client.mutex(key(number)).expect("a good key").acquire().await.expect("acquired"));
    }
    guards
}

async fn all_are_free(other: &Coordinator, count: usize) {
    for number in 0..count {
        let mutex = other.mutex(key(number)).expect("a good key");
        let acquired = timeout(PATIENCE, mutex.acquire()).await.expect("no hold is forgotten");
        drop(acquired.expect("acquired"));
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_holds_leave_a_few_at_a_time_until_all_have_left() {
    let ManyHolds { client, other, leaves } = many_holds(Leave::Takes(Duration::from_millis(10)));
    drop(hold_all(&client, HOLDS).await);
    all_are_free(&other, HOLDS).await;
    assert!(leaves.most() <= AT_ONCE, "{} requests at once", leaves.most());
    assert_eq!(leaves.all.load(Ordering::Relaxed), HOLDS);
}

#[tokio::test(start_paused = true)]
async fn refused_leaves_are_repeated_a_few_at_a_time() {
    let ManyHolds { client, leaves, .. } = many_holds(Leave::Refused);
    let guards = hold_all(&client, HOLDS).await;
    drop(guards);
    while leaves.all.load(Ordering::Relaxed) < 3 * HOLDS {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(leaves.most() <= 2 * AT_ONCE, "{} requests at once", leaves.most());
}

/// All leaves together take longer than a try may.
#[tokio::test(start_paused = true)]
async fn a_leave_that_a_join_waits_for_goes_first() {
    let ManyHolds { client, .. } = many_holds(Leave::Takes(Duration::from_millis(300)));
    drop(hold_all(&client, HOLDS).await);
    for number in [HOLDS - 1, HOLDS / 2] {
        let mutex = client.mutex(key(number)).expect("a good key");
        assert!(mutex.try_acquire().await.expect("answered").is_some(), "the own node is in the way");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_behind_many_leaves_keeps_its_bound_and_leaves_nothing() {
    const MANY: usize = 20_000;
    let ManyHolds { client, other, .. } = many_holds(Leave::Takes(Duration::from_secs(1)));
    drop(hold_all(&client, MANY).await);
    let began = Instant::now();
    client.close().await.expect("the end of the client removes what has not left");
    assert!(began.elapsed() <= 2 * Config::new("memory").request_timeout, "{:?}", began.elapsed());
    all_are_free(&other, MANY).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_leaves_all_its_nodes() {
    let ManyHolds { client, other, leaves } = many_holds(Leave::Takes(Duration::from_millis(10)));
    drop(hold_all(&client, HOLDS).await);
    drop(client);
    all_are_free(&other, HOLDS).await;
    assert!(leaves.most() <= AT_ONCE, "{} requests at once", leaves.most());
}
