//! Many instances read a cache. The first instance that finds it stale refreshes it for all of them.
//!
//! ```text
//! cargo run --example rw_cache                        # on memory
//! cargo run --example rw_cache -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Coordinator, Result, RwLock};

const INSTANCES: usize = 4;
const DAYS: u32 = 3;
/// The time to fetch the prices of a day.
const FETCH: Duration = Duration::from_millis(50);
/// How long a reader that holds waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    // With a name, because `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    // Random, so that two runs of this example do not share a lock. A service has a fixed key.
    let key = format!("prices-{}", uuid::Uuid::new_v4());
    let fleet = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;

    let cache = Cache::default();
    let stopped = half_a_refresh(&fleet[0].rwlock(&*key)?, &cache).await?;
    for day in 1..=DAYS {
        // In the morning, all instances find the prices of the day before.
        let morning = fleet.iter().enumerate().map(|(instance, coordinator)| {
            let (lock, cache) = (coordinator.rwlock(&*key), &cache);
            async move { prices_of(day, instance, &lock?, cache).await }
        });
        try_join_all(morning).await?;
    }

    // The readers hold at the same time: each holds until all of them hold.
    let all_in = tokio::sync::Barrier::new(INSTANCES);
    let readers = fleet.iter().map(|coordinator| {
        let (lock, cache, all_in) = (coordinator.rwlock(&*key), &cache, &all_in);
        async move {
            let hold = lock?.read().await?;
            let met = hold.run(tokio::time::timeout(PATIENCE, all_in.wait())).await?;
            assert!(met.is_ok(), "the other readers did not acquire within {PATIENCE:?}");
            assert_eq!(hold.run(cache.read()).await?, DAYS);
            hold.release().await
        }
    });
    try_join_all(readers).await?;

    let refreshes = cache.disk().refreshes;
    println!(
        "{INSTANCES} instances over {DAYS} days: {refreshes} refreshes, and no reader saw a half-written cache."
    );
    println!("Then all {INSTANCES} read at once: readers wait for writers only.");
    assert_eq!(refreshes, DAYS, "each day is fetched once");
    assert!(!cache.publish(stopped), "an earlier holder is refused");
    try_join_all(fleet.iter().map(Coordinator::close)).await?;
    Ok(())
}

/// Interrupts a refresh in the middle. Returns the token of the interrupted write.
async fn half_a_refresh(lock: &RwLock, cache: &Cache) -> Result<i64> {
    let hold = lock.write().await?;
    let fence = hold.token().as_i64();
    // The source of the prices does not answer.
    let work = tokio::time::timeout(FETCH, cache.refresh(fence, std::future::pending()));
    assert!(hold.run(work).await?.is_err(), "nothing was fetched");
    println!("a refresh with token {fence} was stopped half-way: no reader sees its files");
    hold.release().await?;
    Ok(fence)
}

/// Reads, and refreshes first if the cache is stale.
async fn prices_of(day: u32, instance: usize, lock: &RwLock, cache: &Cache) -> Result<()> {
    // The read lock is released before the instance asks to write. Otherwise it would wait for itself.
    let seen = lock.read().with(async |_| cache.read().await).await?;
    if seen >= day {
        return Ok(());
    }
    let hold = lock.write().await?;
    // Another instance may have refreshed between the two holds, so look again.
    if hold.run(cache.read()).await? < day {
        println!("day {day}: instance {instance} refreshes, with token {}", hold.token());
        let refresh = cache.refresh(hold.token().as_i64(), fetch(day));
        assert!(hold.run(refresh).await?, "no later holder has written");
    }
    hold.release().await?;
    Ok(())
}

/// Fetches the prices of a day from their source.
async fn fetch(day: u32) -> u32 {
    tokio::time::sleep(FETCH).await;
    day
}

/// Files on a shared disk. A refresh writes new files with its token in their name, makes them current
/// in one step, and removes the old files. A refresh that stops earlier changes nothing that a reader
/// sees. Without the read lock, files could be removed between a reader's look-up and its read.
#[derive(Default)]
struct Cache(Mutex<Disk>);

#[derive(Default)]
struct Disk {
    /// The token of the current files.
    current: i64,
    /// The day of the prices, by token; `None` while a refresh writes the files.
    files: BTreeMap<i64, Option<u32>>,
    refreshes: u32,
}

impl Cache {
    /// The day of the current prices; 0 before the first refresh.
    async fn read(&self) -> u32 {
        let current = self.disk().current;
        tokio::time::sleep(Duration::from_millis(5)).await;
        match self.disk().files.get(&current) {
            Some(day) => day.expect("a reader saw a half-written cache"),
            None => {
                assert_eq!(current, 0, "the files were removed during a read");
                0
            }
        }
    }

    /// Returns whether the written files became current.
    async fn refresh(&self, fence: i64, fetched: impl Future<Output = u32>) -> bool {
        self.disk().files.insert(fence, None);
        let day = fetched.await;
        self.disk().files.insert(fence, Some(day));
        self.publish(fence)
    }

    /// One step, like `UPDATE … WHERE fence <= $1`. A holder that has lost its lock does not replace
    /// the files of a later holder. This check is enough because a refresh writes fetched data, and
    /// does not depend on the files that it read. Otherwise see `fenced_write`.
    fn publish(&self, fence: i64) -> bool {
        let mut disk = self.disk();
        if disk.current > fence {
            return false;
        }
        disk.current = fence;
        disk.files.retain(|other, _| *other >= fence);
        disk.refreshes += 1;
        true
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
