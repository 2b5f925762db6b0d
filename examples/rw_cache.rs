//! Many instances read a cache, and the first that finds it stale refreshes it for all.
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
const FETCH: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    // Random for this example. A service has a fixed key.
    let key = format!("prices-{}", uuid::Uuid::new_v4());
    let fleet = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;

    let cache = Cache::default();
    let stopped = half_a_refresh(&fleet[0].rwlock(&*key)?, &cache).await?;
    for day in 1..=DAYS {
        // All instances find the prices of the day before.
        let morning = fleet.iter().enumerate().map(|(instance, coordinator)| {
            let (lock, cache) = (coordinator.rwlock(&*key), &cache);
            async move { prices_of(day, instance, &lock?, cache).await }
        });
        try_join_all(morning).await?;
    }

    // The readers hold until all of them hold.
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

/// Returns the token of the interrupted write.
async fn half_a_refresh(lock: &RwLock, cache: &Cache) -> Result<i64> {
    let hold = lock.write().await?;
    let fence = hold.token().as_i64();
    let work = tokio::time::timeout(FETCH, cache.refresh(fence, std::future::pending()));
    assert!(hold.run(work).await?.is_err(), "nothing was fetched");
    println!("a refresh with token {fence} was stopped half-way: no reader sees its files");
    hold.release().await?;
    Ok(fence)
}

/// Refreshes first if the cache is stale.
async fn prices_of(day: u32, instance: usize, lock: &RwLock, cache: &Cache) -> Result<()> {
    // Released before the write: otherwise the instance would wait for itself.
    let seen = lock.read().with(async |_| cache.read().await).await?;
    if seen >= day {
        return Ok(());
    }
    let hold = lock.write().await?;
    // Another instance may have refreshed in between.
    if hold.run(cache.read()).await? < day {
        println!("day {day}: instance {instance} refreshes, with token {}", hold.token());
        let refresh = cache.refresh(hold.token().as_i64(), fetch(day));
        assert!(hold.run(refresh).await?, "no later holder has written");
    }
    hold.release().await?;
    Ok(())
}

async fn fetch(day: u32) -> u32 {
    tokio::time::sleep(FETCH).await;
    day
}

/// Files on a shared disk. A refresh writes new files under its token, makes them current in one step, and
/// removes the old ones. Without the read lock, files could be removed between a reader's look-up and its
/// read.
#[derive(Default)]
struct Cache(Mutex<Disk>);

#[derive(Default)]
struct Disk {
    current: i64,
    files: BTreeMap<i64, Option<u32>>,
    refreshes: u32,
}

impl Cache {
    /// 0 before the first refresh.
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

    /// Like `UPDATE … WHERE fence <= $1`: a former holder does not replace the files of a later one. This
    /// check is enough because a refresh does not depend on the files that it read. Otherwise see
    /// `fenced_write`.
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
