use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::common::{Plant, connected_to, planted};
use async_trait::async_trait;
use latchwork_core::backend::decide::{IN_ONE_STEP, LEAVES_AT_ONCE, giving_back_bound};
use latchwork_core::backend::{self, Node};
use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::MutexGuard;
use latchwork_core::{Clock, Config, Coordinator, Ended, Error, ErrorKind, LostReason, Result};
use tokio::time::{Instant, sleep, timeout};

const HOLDS: usize = 1000;
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug, Default)]
enum Leave {
    Takes(Duration),
    Refused,
    #[default]
    Silent,
}

#[derive(Debug, Default)]
struct Leaves {
    how: Leave,
    now: AtomicUsize,
    most: AtomicUsize,
    all: AtomicUsize,
    // The leaves before the client ended.
    at_close: AtomicUsize,
}

#[async_trait]
impl Plant for Leaves {
    async fn leave(&self, node: &dyn Node) -> Result<backend::Leave> {
        let counted = self.begin();
        match self.how {
            Leave::Takes(time) => sleep(time).await,
            Leave::Refused => {
                sleep(Duration::from_millis(10)).await;
                return Err(Error::new(ErrorKind::Misconfigured, "planted: no space"));
            }
            Leave::Silent => std::future::pending().await,
        }
        drop(counted);
        node.leave().await
    }

    async fn before_close(&self) {
        self.at_close.store(self.all(), Ordering::Relaxed);
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

    fn all(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    fn at_close(&self) -> usize {
        self.at_close.load(Ordering::Relaxed)
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
    link: Link,
}

fn many_holds(how: Leave) -> ManyHolds {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let leaves = Arc::new(Leaves { how, ..Leaves::default() });
    let (other, _) = connected_to(&store);
    let (client, link) = planted(&store, &config, &leaves);
    ManyHolds { client, other, leaves, link }
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
    for client_stays in [true, false] {
        let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(10)));
        drop(hold_all(&client, HOLDS).await);
        let client = client_stays.then_some(client);
        all_are_free(&other, HOLDS).await;
        assert!(leaves.most() <= LEAVES_AT_ONCE, "{} requests at once", leaves.most());
        assert!(client.is_none() || leaves.all() == HOLDS, "{} leaves", leaves.all());
    }
}

#[tokio::test(start_paused = true)]
async fn refused_leaves_are_repeated_a_few_at_a_time() {
    let ManyHolds { client, leaves, .. } = many_holds(Leave::Refused);
    let guards = hold_all(&client, HOLDS).await;
    drop(guards);
    while leaves.all() < 3 * HOLDS {
        sleep(Duration::from_millis(100)).await;
    }
    assert!(leaves.most() <= 2 * LEAVES_AT_ONCE, "{} requests at once", leaves.most());
}

/// All leaves together take longer than a try.
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
async fn close_after_many_leaves_keeps_its_bound_and_frees_all() {
    const MANY: usize = 20_000;
    let ManyHolds { client, other, .. } = many_holds(Leave::Takes(Duration::from_secs(1)));
    drop(hold_all(&client, MANY).await);
    let began = Instant::now();
    client.close().await.expect("the end of the client removes the remaining nodes");
    let timeout = Config::new("memory").request_timeout;
    assert!(began.elapsed() <= giving_back_bound(MANY, timeout) + timeout, "{:?}", began.elapsed());
    all_are_free(&other, MANY).await;
}

const BURSTS: usize = 3000;
/// The holds that the close releases one by one.
const SURPLUS: usize = BURSTS - IN_ONE_STEP;

#[tokio::test(start_paused = true)]
async fn close_releases_the_surplus_of_one_step_in_bursts() {
    let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(10)));
    let guards = hold_all(&client, BURSTS).await;
    let (began, margin) = (Instant::now(), client.lease().margin());
    client.close().await.expect("closed");
    assert_eq!(
        (leaves.at_close(), leaves.all()),
        (SURPLUS, SURPLUS),
        "the end of the client removes the others"
    );
    assert!(leaves.most() <= LEAVES_AT_ONCE, "{} requests at once", leaves.most());
    let bursts = Duration::from_millis(10) * SURPLUS.div_ceil(LEAVES_AT_ONCE) as u32;
    assert!(began.elapsed() <= margin + bursts + bursts / 4, "{:?}", began.elapsed());
    assert!(guards.iter().all(|guard| guard.lost().ended() == Some(Ended::Lost(LostReason::Closed))));
    all_are_free(&other, BURSTS).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_of_what_one_step_may_hold_sends_nothing_more() {
    let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Silent);
    let _guards = hold_all(&client, IN_ONE_STEP).await;
    client.close().await.expect("closed");
    assert_eq!(leaves.all(), 0);
    all_are_free(&other, IN_ONE_STEP).await;
}

#[tokio::test(start_paused = true)]
async fn guards_that_hear_of_the_close_and_are_dropped_are_given_back_too() {
    let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(10)));
    let guards = hold_all(&client, BURSTS).await;
    let (began, margin) = (Instant::now(), client.lease().margin());
    let dropped = async {
        for guard in guards {
            guard.lost().await;
        }
        assert_eq!(leaves.all(), 0, "work may still run");
        assert!(began.elapsed() < margin);
    };
    let (closed, ()) = tokio::join!(client.close(), dropped);
    closed.expect("closed");
    assert_eq!(leaves.at_close(), SURPLUS);
    all_are_free(&other, BURSTS).await;
}

#[tokio::test(start_paused = true)]
async fn a_close_whose_server_is_away_returns_after_two_request_timeouts_however_much_is_held() {
    for cut in [false, true] {
        let ManyHolds { client, leaves, link, .. } = many_holds(match cut {
            true => Leave::Takes(Duration::ZERO),
            false => Leave::Silent,
        });
        let _guards = hold_all(&client, 10 * BURSTS).await;
        if cut {
            link.cut();
        }
        let (began, margin) = (Instant::now(), client.lease().margin());
        client.close().await.expect("closed");
        let bound = margin + 2 * Config::new("memory").request_timeout;
        assert!(began.elapsed() <= bound, "{:?}", began.elapsed());
        assert!(leaves.most() <= LEAVES_AT_ONCE, "{} requests at once", leaves.most());
        let sent = leaves.all();
        sleep(PATIENCE).await;
        assert!(leaves.all() <= sent + LEAVES_AT_ONCE, "no leave begins after the end");
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_that_is_dropped_at_any_instant_goes_on_and_leaves_each_node_once() {
    // The drop is in the margin, at the start of the first burst, and during it.
    let margin = many_holds(Leave::Refused).client.lease().margin();
    for millis in [0, 500, 1000, 1001, 1005, 1013, 1200] {
        let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(10)));
        let guards = hold_all(&client, BURSTS).await;
        let began = Instant::now();
        let _ = timeout(Duration::from_millis(millis), client.close()).await.expect_err("it takes longer");
        drop(guards);
        client.close().await.expect("closed");
        assert!(began.elapsed() >= margin, "after {:?}", began.elapsed());
        assert_eq!((leaves.at_close(), leaves.all()), (SURPLUS, SURPLUS), "dropped after {millis} ms");
        all_are_free(&other, BURSTS).await;
    }
}

#[tokio::test(start_paused = true)]
async fn hold_released_during_a_close_is_left_only_once() {
    let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(1)));
    let guards = hold_all(&client, BURSTS).await;
    let released = async {
        for guard in &guards {
            guard.lost().await;
            let lost = guard.release().await.expect_err("closed");
            assert_eq!(lost.lost_reason(), Some(LostReason::Closed));
        }
    };
    let (closed, ()) = tokio::join!(client.close(), released);
    closed.expect("closed");
    assert_eq!(leaves.all(), BURSTS, "each by its release");
    all_are_free(&other, BURSTS).await;
}

/// The first leave admits a waiter of the closing client, and a waiter of another client is next.
#[tokio::test(start_paused = true)]
async fn a_waiter_of_the_closing_client_that_gets_the_hand_off_hands_it_on() {
    let ManyHolds { client, other, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(10)));
    let guards = hold_all(&client, BURSTS).await;
    let mutexes = |client: &Coordinator| -> Vec<_> {
        (0..BURSTS).map(|number| client.mutex(key(number)).expect("a good key")).collect()
    };
    let mut own = tokio::task::JoinSet::new();
    for mutex in mutexes(&client) {
        own.spawn(async move { mutex.acquire().await });
    }
    tokio::task::yield_now().await;
    let mut behind = tokio::task::JoinSet::new();
    for mutex in mutexes(&other) {
        behind.spawn(async move { mutex.acquire().await.expect("admitted") });
    }
    tokio::task::yield_now().await;
    let closing = tokio::spawn({
        let client = client.clone();
        async move { client.close().await }
    });
    // The client ends much later.
    let first = behind.join_next().await.expect("a waiter").expect("no panic");
    assert!(first.is_held());
    assert_eq!(leaves.at_close(), 0, "the client has not ended");
    closing.await.expect("no panic").expect("closed");
    while let Some(next) = behind.join_next().await {
        next.expect("no panic").release().await.expect("held");
    }
    while let Some(ended) = own.join_next().await {
        // The hold was lost at its admission, or the client was closed.
        assert!(ended.expect("no panic").map_or(true, |guard| !guard.is_held()));
    }
    drop((guards, first));
}

#[tokio::test(start_paused = true)]
async fn close_now_does_not_release_holds_before_their_minimum_time() {
    let ManyHolds { client, leaves, .. } = many_holds(Leave::Takes(Duration::from_millis(1)));
    let mut guards = hold_all(&client, IN_ONE_STEP).await;
    for number in 0..100 {
        let mutex = client.mutex(format!("kept-{number}")).expect("a good key");
        guards.push(mutex.acquire().min_hold(PATIENCE).await.expect("acquired"));
    }
    client.close_now().await.expect("closed");
    assert_eq!(leaves.all(), 100, "all nodes that are not kept");
    for guard in &guards[IN_ONE_STEP..] {
        assert!(!guard.is_held(), "the loss is reported in any case");
    }
}

/// A master of a cluster is away: the leaves of its nodes have no answer.
#[derive(Debug, Default)]
struct PartAway {
    up_to: AtomicU64,
    tried: AtomicUsize,
}

#[async_trait]
impl Plant for PartAway {
    async fn leave(&self, node: &dyn Node) -> Result<backend::Leave> {
        if node.state().sequence() <= self.up_to.load(Ordering::Relaxed) {
            self.tried.fetch_add(1, Ordering::Relaxed);
            return Err(Error::new(ErrorKind::Unavailable, "planted: the node's master is away"));
        }
        node.leave().await
    }
}

#[tokio::test(start_paused = true)]
async fn leave_on_a_live_server_does_not_wait_for_an_absent_server() {
    let (store, config) = (Memory::new(Clock::tokio()), Config::new("memory"));
    let plant = Arc::new(PartAway::default());
    let (other, _) = connected_to(&store);
    let (client, _link) = planted(&store, &config, &plant);
    let away = hold_all(&client, 4 * LEAVES_AT_ONCE).await;
    let last = away.iter().map(|guard| guard.token().sequence()).max().expect("some");
    let there = client.mutex("there").expect("a good key");
    let guard = loop {
        let guard = there.acquire().await.expect("free");
        if guard.token().sequence() > last {
            break guard;
        }
        guard.release().await.expect("released");
    };
    plant.up_to.store(last, Ordering::Relaxed);
    drop(away);
    while plant.tried.load(Ordering::Relaxed) < 8 * LEAVES_AT_ONCE {
        sleep(Duration::from_millis(10)).await;
    }
    let began = Instant::now();
    drop(guard);
    let next = other.mutex("there").expect("a good key");
    drop(timeout(PATIENCE, next.acquire()).await.expect("it is not forgotten").expect("acquired"));
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
}
