//! Many holds that end at once: what goes back is bounded in flight, whoever waits for it comes first, and nothing is forgotten.

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

/// What a server has time for at once, whatever else a client sends: stated in `departures.rs`.
const AT_ONCE: usize = 64;
const CROWD: usize = 1000;
/// Longer than any of these takes on a paused clock.
const PATIENCE: Duration = Duration::from_secs(600);

/// How a leave goes.
#[derive(Clone, Copy, Debug)]
enum Leave {
    Takes(Duration),
    Refused,
}

/// A client's leaves, which take their time, counted.
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

struct Crowded {
    client: Coordinator,
    other: Coordinator,
    leaves: Arc<Leaves>,
}

fn crowded(how: Leave) -> Crowded {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let leaves = Arc::new(Leaves {
        how,
        now: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        all: AtomicUsize::new(0),
    });
    let (other, _) = store.connect(&config).expect("connected");
    Crowded { client: planted(&store, &config, &leaves).0, other, leaves }
}

fn key(number: usize) -> String {
    format!("key-{number}")
}

async fn hold_all(client: &Coordinator, crowd: usize) -> Vec<MutexGuard> {
    let mut guards = Vec::new();
    for number in 0..crowd {
        guards.push(client.mutex(key(number)).expect("a good key").acquire().await.expect("acquired"));
    }
    guards
}

async fn all_are_free(other: &Coordinator, crowd: usize) {
    for number in 0..crowd {
        let mutex = other.mutex(key(number)).expect("a good key");
        let acquired = timeout(PATIENCE, mutex.acquire()).await.expect("it was forgotten");
        drop(acquired.expect("acquired"));
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_at_once_goes_back_a_few_at_a_time_and_all_of_it() {
    let Crowded { client, other, leaves } = crowded(Leave::Takes(Duration::from_millis(10)));
    drop(hold_all(&client, CROWD).await);
    all_are_free(&other, CROWD).await;
    assert!(leaves.most() <= AT_ONCE, "{} requests at once", leaves.most());
    assert_eq!(leaves.all.load(Ordering::Relaxed), CROWD);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_tried_on_a_few_at_a_time() {
    let Crowded { client, leaves, .. } = crowded(Leave::Refused);
    let guards = hold_all(&client, CROWD).await;
    drop(guards);
    while leaves.all.load(Ordering::Relaxed) < 3 * CROWD {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(leaves.most() <= 2 * AT_ONCE, "{} requests at once", leaves.most());
}

/// All of them together take longer than a try has.
#[tokio::test(start_paused = true)]
async fn what_somebody_waits_for_goes_back_first() {
    let Crowded { client, .. } = crowded(Leave::Takes(Duration::from_millis(300)));
    drop(hold_all(&client, CROWD).await);
    for number in [CROWD - 1, CROWD / 2] {
        let mutex = client.mutex(key(number)).expect("a good key");
        assert!(mutex.try_acquire().await.expect("answered").is_some(), "the own node is in the way");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_behind_a_crowd_keeps_its_bound_and_the_store_has_everything_back() {
    const MANY: usize = 20_000;
    let Crowded { client, other, .. } = crowded(Leave::Takes(Duration::from_secs(1)));
    drop(hold_all(&client, MANY).await);
    let began = Instant::now();
    client.close().await.expect("the client's end gives back what waits");
    assert!(began.elapsed() <= 2 * Config::new("memory").request_timeout, "{:?}", began.elapsed());
    all_are_free(&other, MANY).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_behind_a_crowd_gives_all_of_it_back() {
    let Crowded { client, other, leaves } = crowded(Leave::Takes(Duration::from_millis(10)));
    drop(hold_all(&client, CROWD).await);
    drop(client);
    all_are_free(&other, CROWD).await;
    assert!(leaves.most() <= AT_ONCE, "{} requests at once", leaves.most());
}
