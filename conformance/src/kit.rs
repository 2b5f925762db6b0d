//! What cases are made of: a stage, its clients, and the waits that assert a bound.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use latchwork_core::contracts::{AskedLimit, Entry, Join, Joined, LeaseState, NodeId, Page, Patience};
use latchwork_core::decide::Claim;
use latchwork_core::recipes::ReentrantMutex;
use latchwork_core::{Address, Config, Coordinator, Kind, Release};
use tokio::time::{Instant, timeout};

use crate::adapter::Adapter;
use crate::exclusive::{Guard, Lock};
use crate::played::Played;
use crate::taken::Taken;
use crate::testbed::{Client, Fault, Stage, Testbed};

/// The TTL of cases that are not about loss or expiry.
pub(crate) const LONG_TTL: Duration = Duration::from_secs(10);
/// A TTL at which renewals and re-checks come so seldom that they hide nothing: the longest that ZooKeeper grants by default.
pub(crate) const QUIET_TTL: Duration = Duration::from_secs(40);
/// What a busy machine may add to any bound of time: scheduling, not protocol. It is stated here once.
pub(crate) const NOISE: Duration = Duration::from_millis(1500);
/// The TTL of cases about loss and expiry: as short as it may be so that nothing is lost to [`NOISE`] alone. From the send of
/// a renewal to the deadline there is T - T / 10, and the next is sent after T / 3.
pub(crate) const SHORT_TTL: Duration = NOISE.saturating_mul(2);
/// Anything that is not about time must happen within this.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is cleaned up must be within this: less than [`LONG_TTL`], so that the end of a lease hides nothing that stayed.
const CLEAN_UP: Duration = Duration::from_secs(8);

/// The environment variable that repeats the random choices of a run that printed it.
pub(crate) const SEED: &str = "LATCHWORK_SEED";

/// Where a case plays: its stage, and the testbed behind it.
pub struct Scene {
    /// The testbed.
    pub(crate) bed: &'static dyn Testbed,
    /// The case's own stage.
    pub(crate) stage: Box<dyn Stage>,
    /// What the case takes for a mutex.
    pub(crate) adapter: Adapter,
    // What is to be held beside it by a client of its own.
    taken: Option<Arc<Taken>>,
    // Why the case is not played.
    left_out: OnceLock<&'static str>,
}

impl fmt::Debug for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scene")
            .field("bed", &self.bed.name())
            .field("adapter", &self.adapter)
            .finish_non_exhaustive()
    }
}

impl Scene {
    /// Opens a scene on a testbed.
    ///
    /// # Errors
    /// When the testbed has no stage to give.
    pub async fn open(bed: &'static dyn Testbed, adapter: Adapter) -> latchwork_core::Result<Self> {
        let stage = bed.stage().await?;
        let taken = match adapter {
            Adapter::SemaphoreOfFive => {
                let mut config = stage.config();
                config.ttl = QUIET_TTL;
                Some(Arc::new(Taken::by(stage.client(&config).await?.coordinator)))
            }
            _ => None,
        };
        Ok(Self { bed, stage, adapter, taken, left_out: OnceLock::new() })
    }

    /// Says that the stage has not what the case needs.
    pub(crate) fn leave_out(&self, why: &'static str) {
        self.left_out.get_or_init(|| why);
    }

    /// Whether the case was played.
    pub(crate) fn played(&self) -> Played {
        self.left_out.get().map_or(Played::Whole, |why| Played::LeftOut(why))
    }

    /// What this case is played with, as a mutex.
    pub(crate) fn mutex(&self, client: &Client, key: &str) -> Lock {
        self.adapter.lock(&client.coordinator, key, self.taken.clone()).expect("a good key")
    }

    /// The queue of that mutex.
    pub(crate) fn queue(&self, key: &str) -> Address {
        queue_of(self, self.adapter.kind(), key)
    }

    /// Takes what is to be held of that mutex by another, before anything below or beside the suite's handles touches it.
    pub(crate) async fn take_others(&self, key: &str) {
        if let Some(taken) = &self.taken {
            soon("the other permits are taken", taken.take(key)).await.expect("taken");
        }
    }

    /// Joins the queue of that mutex below the recipes.
    pub(crate) async fn join_mutex(&self, client: &Client, key: &str) -> Joined {
        self.take_others(key).await;
        let join = Join { limit: self.adapter.limit(), ..join_of(&self.queue(key), self.adapter.claim()) };
        soon("join", client.coordinator.backend().join(&join)).await.expect("joined")
    }

    /// The end of a case: the scene's own client gives back what it held.
    pub(crate) async fn end(&self) {
        if let Some(taken) = &self.taken {
            soon("the other permits are given back", taken.give_back()).await.expect("given back");
        }
    }

    pub(crate) fn config(&self, ttl: Duration) -> Config {
        let mut config = self.stage.config();
        config.ttl = ttl;
        config
    }

    /// A client with a TTL for cases that are not about loss.
    pub(crate) async fn client(&self) -> Client {
        self.client_with(&self.config(LONG_TTL)).await
    }

    /// A client with a short TTL.
    pub(crate) async fn mortal(&self) -> Client {
        self.client_with(&self.config(SHORT_TTL)).await
    }

    pub(crate) async fn client_with(&self, config: &Config) -> Client {
        within(PATIENCE, "connect", self.stage.client(config)).await.expect("a client connects")
    }

    /// What the random choices of a case begin with; it says so.
    pub(crate) fn seed(&self) -> u64 {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().unwrap_or_else(|_| panic!("{SEED} is a number, not {seed:?}")),
            Err(_) => rand::random(),
        };
        eprintln!("{}: {SEED}={seed}", self.bed.name());
        seed
    }

    /// Answers whether the stage can lay a fault. Where it cannot, checks that it refuses.
    pub(crate) fn can(&self, fault: Fault) -> bool {
        self.stage.can(fault)
    }

    /// The longest that a dead client's node may stand in the way, from its last contact.
    pub(crate) fn recovery(&self, client: &Client) -> Duration {
        client.coordinator.lease().ttl() + self.stage.expiry_bound() + NOISE
    }

    /// The end of a case: nothing may be left on the server.
    pub async fn assert_nothing_left(&self) {
        let deadline = Instant::now() + CLEAN_UP;
        loop {
            let contents = self.stage.contents().await.expect("the server can be read");
            if contents.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind on the server: {contents:#?}");
            // What was dropped goes in the background, and the server tells nobody: looking again is the only way.
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Awaits `future` for at most `bound`.
pub(crate) async fn within<F: Future>(bound: Duration, what: &str, future: F) -> F::Output {
    match timeout(bound, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not happen within {bound:?}"),
    }
}

/// Awaits what must happen, with no bound of its own.
pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    within(PATIENCE, what, future).await
}

/// Polls `future` so often, each time when it has been woken, and then drops it: `None` when it was not done by then. So a
/// case goes through its await points one by one.
pub(crate) async fn after_polls<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    stepping(polls, false, future).await
}

/// As [`after_polls`], and drops it when it has been woken once more, but not polled: what woke it is lost with it.
pub(crate) async fn after_polls_and_a_wake<F: Future>(polls: usize, future: F) -> Option<F::Output> {
    stepping(polls, true, future).await
}

async fn stepping<F: Future>(polls: usize, and_a_wake: bool, future: F) -> Option<F::Output> {
    tokio::pin!(future);
    let mut left = polls;
    let stepping = std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match future.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if left == 0 && !and_a_wake => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    soon("the next step", stepping).await
}

/// A plain mutex, in a case that is about something else too. A case about what a mutex does asks the scene for one.
pub(crate) fn mutex(client: &Client, key: &str) -> Lock {
    Adapter::Mutex.lock(&client.coordinator, key, None).expect("a good key")
}

pub(crate) fn reentrant(client: &Client, key: &str) -> ReentrantMutex {
    client.coordinator.reentrant_mutex(key).expect("a good key")
}

pub(crate) async fn acquire(mutex: &Lock) -> Guard {
    soon("acquire", mutex.acquire()).await.expect("acquired")
}

/// What a release must answer of a hold that nobody has taken.
pub(crate) fn in_time(release: Release) {
    assert_eq!(release, Release::Released, "it was held until now");
}

pub(crate) async fn try_acquire(mutex: &Lock) -> Option<Guard> {
    soon("try_acquire", mutex.try_acquire()).await.expect("answered")
}

/// The queue of a mutex, as a listing shows it.
pub(crate) async fn listing(mutex: &Lock) -> Vec<Entry> {
    soon("list", mutex.queue(0, 1000)).await.expect("listed")
}

/// Starts an acquire in the background, and waits until it stands in the queue as its `place`-th node (from 1).
pub(crate) async fn queue_up(mutex: &Lock, place: usize) -> Waiter {
    let task = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.acquire().await }
    });
    let waiter = Waiter(task);
    until("the waiter stands in the queue", || async { listing(mutex).await.len() >= place }).await;
    waiter
}

/// An acquire in the background. Dropped, it is cancelled.
pub(crate) struct Waiter(tokio::task::JoinHandle<latchwork_core::Result<Guard>>);

impl Waiter {
    pub(crate) async fn outcome(mut self) -> latchwork_core::Result<Guard> {
        soon("the waiter ends", &mut self.0).await.expect("no panic")
    }

    pub(crate) async fn guard(self) -> Guard {
        self.outcome().await.expect("admitted")
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Looks until something holds that no event tells of.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    within(CLEAN_UP, what, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// A client's lease is live; who looks may do so in a moment in which a busy machine had it suspended.
pub(crate) async fn is_live(coordinator: &Coordinator) {
    lease_state(coordinator, NOISE, |state| state == LeaseState::Live).await;
}

/// Waits until a client's lease is in a state for which `is` holds, at most for `bound`.
pub(crate) async fn lease_state(
    coordinator: &Coordinator,
    bound: Duration,
    is: impl Fn(LeaseState) -> bool,
) -> LeaseState {
    let lease = coordinator.lease();
    within(bound, "the lease's change of state", async {
        let mut state = lease.state();
        while !is(state) {
            state = lease.changed(state).await;
        }
        state
    })
    .await
}

/// A queue of a kind, under a stage's namespace.
pub(crate) fn queue_of(scene: &Scene, kind: Kind, key: &str) -> Address {
    Address::new(&scene.stage.config().namespace, kind, key).expect("a good key")
}

/// A join below the recipes.
pub(crate) fn join_of(queue: &Address, claim: Claim) -> Join {
    Join {
        queue: queue.clone(),
        id: NodeId::random(),
        claim,
        limit: match claim {
            Claim::Permits(_) => AskedLimit::Exactly(2),
            _ => AskedLimit::Stored,
        },
        label: "conformance".into(),
        patience: Patience::Wait,
        repeated: false,
    }
}

/// Joins below the recipes: the answer.
pub(crate) async fn join(client: &Client, queue: &Address, claim: Claim) -> Joined {
    soon("join", client.coordinator.backend().join(&join_of(queue, claim))).await.expect("joined")
}

/// The first page of a queue below the recipes.
pub(crate) async fn entries(client: &Client, queue: &Address) -> Vec<Entry> {
    let page = Page { after: 0, most: 1000 };
    soon("list", client.coordinator.backend().list(queue, page)).await.expect("listed")
}
