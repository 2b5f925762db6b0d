//! Calls that are polled once and then kept, as a `select!` in a loop may keep them, and many calls at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use latchwork_core::memory::{Link, Memory};
use latchwork_core::recipes::{CountDownLatch, Counter, IdGenerator, QuorumLock};
use latchwork_core::{Clock, Config, Coordinator, ErrorKind};

use crate::common::{Plant, connected, fails, planted};

const TRIP: Duration = Duration::from_millis(20);
const SOON: Duration = Duration::from_secs(5);

fn kept<'a, T: 'a>(
    call: impl Future<Output = T> + Send + 'a,
) -> Pin<Box<dyn Future<Output = T> + Send + 'a>> {
    let mut call = call.boxed();
    assert!((&mut call).now_or_never().is_none(), "it takes a round trip");
    call
}

async fn soon<T>(call: impl Future<Output = latchwork_core::Result<T>>) -> T {
    tokio::time::timeout(SOON, call).await.expect("a kept call blocks it").expect("answered")
}

/// A client whose requests take time, and which changes counts by compare-and-set.
fn comparing(store: &Memory) -> (Coordinator, Link) {
    let (client, link) = planted(store, &Config::new("memory"), &Arc::new(Compares));
    link.delay(TRIP);
    (client, link)
}

#[derive(Debug)]
struct Compares;

impl Plant for Compares {
    fn changes_counts(&self) -> bool {
        false
    }
}

async fn count_goes_on(client: &Coordinator) {
    let counter: Counter = client.counter("a").expect("a good key");
    let ids: IdGenerator = client.id_generator("a").expect("a good key").with_block(1).expect("a size");
    let latch: CountDownLatch = client.count_down_latch("a", 9).expect("a good key");
    let first = (kept(counter.add(1)), kept(ids.next_id()), kept(latch.count_down()));
    assert_eq!((soon(counter.add(1)).await, soon(latch.count_down()).await), (2, 7));
    assert_eq!(soon(ids.next_id()).await, 2);
    let deleting = (kept(counter.delete()), kept(ids.delete()), kept(latch.delete()));
    assert_eq!(
        (soon(counter.add(1)).await, soon(ids.next_id()).await, soon(latch.count_down()).await),
        (1, 1, 8)
    );
    // They have their answers, although nothing polled them.
    assert_eq!((soon(first.0).await, soon(first.1).await, soon(first.2).await), (1, 1, 8));
    assert_eq!((soon(deleting.0).await, soon(deleting.1).await, soon(deleting.2).await), (true, true, true));
}

#[tokio::test(start_paused = true)]
async fn kept_calls_of_counts_block_no_other_call() {
    let (client, link) = connected();
    link.delay(TRIP);
    count_goes_on(&client).await;
}

#[tokio::test(start_paused = true)]
async fn kept_calls_of_counts_block_no_other_call_on_a_server_that_compares() {
    let store = Memory::new(Clock::tokio());
    count_goes_on(&comparing(&store).0).await;
}

#[tokio::test(start_paused = true)]
async fn kept_read_of_a_quorum_marker_blocks_no_other_acquisition() {
    let clock = Clock::tokio();
    let mut members = Vec::new();
    for name in ["a", "b", "c"] {
        let mut config = Config::new("memory");
        config.name = Some(name.to_owned());
        let (member, link) = Memory::new(clock.clone()).connect(&config).expect("connected");
        link.delay(TRIP);
        members.push(member);
    }
    let lock =
        |key: &str| QuorumLock::new(key, members.clone(), Duration::from_secs(10)).expect("good members");
    soon(lock("x").initialize()).await;
    let first = kept(lock("x").acquire().into_future());
    let other = soon(lock("y").acquire().into_future()).await;
    soon(other.release()).await;
    soon(soon(first).await.release()).await;
}

#[tokio::test(start_paused = true)]
async fn fleet_that_counts_at_once_on_a_server_that_compares_is_counted_exactly() {
    let store = Memory::new(Clock::tokio());
    let clients: Vec<_> = (0..10).map(|_| comparing(&store).0).collect();
    let handles = || (0..1_000).map(|number| &clients[number % clients.len()]);
    let adds = handles().map(async |client| client.counter("a").expect("a good key").add(1).await);
    let mut sums: Vec<_> = join_all(adds).await.into_iter().map(|sum| sum.expect("added")).collect();
    sums.sort_unstable();
    assert_eq!(sums, (1..=1_000).collect::<Vec<i64>>());
    let ids = handles().map(async |client| client.id_generator("a").expect("a good key").next_id().await);
    let mut ids: Vec<_> = join_all(ids).await.into_iter().map(|id| id.expect("reserved")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 1_000);
    let downs =
        handles().map(async |client| client.count_down_latch("a", 990).expect("a key").count_down().await);
    let mut left: Vec<_> =
        join_all(downs).await.into_iter().map(|left| left.expect("counted down")).collect();
    left.sort_unstable();
    assert_eq!(left, [0; 10].into_iter().chain(0..990).collect::<Vec<u32>>());
}

#[tokio::test(start_paused = true)]
async fn tasks_of_one_handle_reserve_their_ids_together() {
    let (client, link) = connected();
    link.delay(TRIP);
    let ids = client.id_generator("a").expect("a good key").with_block(1).expect("a size");
    let given = join_all((0..100).map(|_| ids.next_id()));
    let given: Vec<_> = tokio::time::timeout(5 * TRIP, given).await.expect("a few round trips");
    let given: Vec<_> = given.into_iter().map(|id| id.expect("reserved")).collect();
    assert_eq!(given, (1..=100).collect::<Vec<u64>>(), "in the order of the calls");
}

/// Single adds fit, although the sum of all does not.
#[tokio::test(start_paused = true)]
async fn adds_that_do_not_fit_together_are_answered_one_by_one() {
    let (client, link) = connected();
    let counter = client.counter("a").expect("a good key");
    assert!(soon(counter.compare_and_set(0, i64::MAX - 4)).await);
    link.delay(TRIP);
    let sums = join_all([1, 2, 3, 1].map(|number| counter.add(number))).await;
    assert_eq!(
        sums[..2].iter().map(|sum| sum.clone().expect("it fits")).collect::<Vec<_>>(),
        [i64::MAX - 3, i64::MAX - 1]
    );
    assert_eq!(sums[2].clone().expect_err("too much").argument(), Some("number"));
    assert_eq!(sums[3].clone().expect("it fits"), i64::MAX);
}

#[tokio::test(start_paused = true)]
async fn dropped_calls_that_were_not_sent_are_not_applied() {
    let (client, link) = connected();
    link.delay(TRIP);
    let counter = client.counter("a").expect("a good key");
    let under_way = kept(counter.add(1));
    tokio::time::sleep(TRIP / 4).await;
    drop((kept(counter.add(10)), kept(counter.add(20))));
    assert_eq!(soon(counter.add(100)).await, 101);
    assert_eq!(soon(under_way).await, 1);
}

#[tokio::test(start_paused = true)]
async fn call_that_outlives_the_close_of_its_client_ends() {
    let (client, link) = connected();
    link.delay(TRIP);
    let counter = client.counter("a").expect("a good key");
    let adding = kept(counter.add(1));
    client.close().await.expect("closed");
    let _either = adding.await;
    fails(counter.add(1).await, ErrorKind::Closed, "closed");
    let ids = client.id_generator("a").expect("a good key");
    let error = fails(ids.next_id().await, ErrorKind::Closed, "closed");
    assert_eq!(error.operation(), Some("next_id"));
}
