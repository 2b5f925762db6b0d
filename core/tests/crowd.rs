//! Many holds that end at once: what goes back is bounded in flight, whoever waits for it comes first, and nothing is forgotten.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use latchwork_core::contracts::{
    Backend, Close, Entry, Join, Joined, Lease, Node, NodeState, Page, SequentialNodes,
};
use latchwork_core::memory::Memory;
use latchwork_core::recipes::MutexGuard;
use latchwork_core::{Address, Capabilities, Clock, Config, Coordinator, Error, ErrorKind, Result};
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

/// The leaves of a client, counted.
#[derive(Debug, Default)]
struct Leaves {
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
}

impl Leaves {
    async fn leave(&self, how: Leave) -> Result<()> {
        let _counted = self.begin();
        match how {
            Leave::Takes(time) => sleep(time).await,
            Leave::Refused => {
                sleep(Duration::from_millis(10)).await;
                return Err(Error::new(ErrorKind::Misconfigured, "planted: no space"));
            }
        }
        Ok(())
    }

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

/// A memory backend that counts leaves, and takes its time for each.
#[derive(Debug)]
struct Slow {
    inner: Arc<dyn Backend>,
    how: Leave,
    leaves: Arc<Leaves>,
}

#[derive(Debug)]
struct SlowNode {
    inner: Arc<dyn Node>,
    how: Leave,
    leaves: Arc<Leaves>,
}

#[async_trait]
impl SequentialNodes for Slow {
    async fn join(&self, join: &Join) -> Result<Joined> {
        let wrap = |inner| Arc::new(SlowNode { inner, how: self.how, leaves: Arc::clone(&self.leaves) });
        Ok(match self.inner.join(join).await? {
            Joined::Admitted(node) => Joined::Admitted(wrap(node)),
            Joined::Waiting(node) => Joined::Waiting(wrap(node)),
            Joined::Refused => Joined::Refused,
        })
    }

    async fn abandon(&self, join: &Join) -> Result<()> {
        self.inner.abandon(join).await
    }

    async fn list(&self, queue: &Address, page: Page) -> Result<Vec<Entry>> {
        self.inner.list(queue, page).await
    }

    async fn revoke(&self, queue: &Address, sequence: u64) -> Result<bool> {
        self.inner.revoke(queue, sequence).await
    }

    async fn limit(&self, queue: &Address) -> Result<Option<u32>> {
        self.inner.limit(queue).await
    }

    async fn set_limit(&self, queue: &Address, limit: u32) -> Result<()> {
        self.inner.set_limit(queue, limit).await
    }
}

#[async_trait]
impl Backend for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn lease(&self) -> Lease {
        self.inner.lease()
    }

    async fn close(&self, how: Close) -> Result<()> {
        self.inner.close(how).await
    }
}

#[async_trait]
impl Node for SlowNode {
    fn state(&self) -> &NodeState {
        self.inner.state()
    }

    async fn admitted(&self) -> Result<()> {
        self.inner.admitted().await
    }

    async fn leave(&self) -> Result<latchwork_core::contracts::Leave> {
        self.leaves.leave(self.how).await?;
        self.inner.leave().await
    }

    async fn downgrade(&self) -> Result<()> {
        self.inner.downgrade().await
    }
}

struct Crowded {
    client: Coordinator,
    other: Coordinator,
    leaves: Arc<Leaves>,
}

fn crowded(how: Leave) -> Crowded {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let (inner, _) = store.client(&config).expect("connected");
    let leaves = Arc::<Leaves>::default();
    let backend = Arc::new(Slow { inner, how, leaves: Arc::clone(&leaves) });
    let (other, _) = store.connect(&config).expect("connected");
    Crowded { client: Coordinator::new(backend, &config), other, leaves }
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
