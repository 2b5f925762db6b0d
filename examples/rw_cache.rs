//! A cache that many instances read. The first instance that finds it stale refreshes it, once for
//! all.
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
/// How long it takes to fetch a day's prices.
const FETCH: Duration = Duration::from_millis(50);
/// How long a reader that has come in waits for the others.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    // A name, since `memory://` alone is private to each Coordinator.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let key = format!("prices-{}", uuid::Uuid::new_v4());
    let fleet = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;

    let cache = Cache::default();
    let stopped = half_a_refresh(&fleet[0].rwlock(&*key)?, &cache).await?;
    for day in 1..=DAYS {
        // In the morning all of them find yesterday's prices.
        let morning = fleet.iter().enumerate().map(|(instance, coordinator)| {
            let (lock, cache) = (coordinator.rwlock(&*key), &cache);
            async move { prices_of(day, instance, &lock?, cache).await }
        });
        try_join_all(morning).await?;
    }

    // The readers hold together: each stays until all of them have come in.
    let all_in = tokio::sync::Barrier::new(INSTANCES);
    let readers = fleet.iter().map(|coordinator| {
        let (lock, cache, all_in) = (coordinator.rwlock(&*key), &cache, &all_in);
        async move {
            let hold = lock?.read().await?;
            let met = hold.run(tokio::time::timeout(PATIENCE, all_in.wait())).await?;
            assert!(met.is_ok(), "the other readers have not come in within {PATIENCE:?}");
            assert_eq!(hold.run(cache.read()).await?, DAYS);
            hold.release().await
        }
    });
    try_join_all(readers).await?;

    let refreshes = cache.disk().refreshes;
    println!(
        "{INSTANCES} instances over {DAYS} days: {refreshes} refreshes, and nobody read a half-written cache."
    );
    println!("Then all {INSTANCES} read at once: readers wait for writers only.");
    assert_eq!(refreshes, DAYS, "each day is fetched once");
    assert!(!cache.publish(stopped), "an earlier holder is refused");
    try_join_all(fleet.iter().map(Coordinator::close)).await?;
    Ok(())
}

/// Shows a loss: `run` drops the work wherever it is. Returns the fence of the interrupted write.
async fn half_a_refresh(lock: &RwLock, cache: &Cache) -> Result<i64> {
    let hold = lock.write().await?;
    let fence = hold.token().as_i64();
    // The source of the prices does not answer.
    let work = tokio::time::timeout(FETCH, cache.refresh(fence, std::future::pending()));
    assert!(hold.run(work).await?.is_err(), "nothing was fetched");
    println!("a refresh with fence {fence} was stopped half-way: nobody sees what it has written");
    hold.release().await?;
    Ok(fence)
}

/// Reads, and refreshes first if the cache is stale.
async fn prices_of(day: u32, instance: usize, lock: &RwLock, cache: &Cache) -> Result<()> {
    // The read hold is released before the write is asked for. A reader that kept it would wait for
    // itself.
    let seen = lock.read().with(async |_| cache.read().await).await?;
    if seen >= day {
        return Ok(());
    }
    let hold = lock.write().await?;
    // Another instance may have refreshed between the two holds, so look again.
    if hold.run(cache.read()).await? < day {
        println!("day {day}: instance {instance} refreshes, with fence {}", hold.token());
        let refresh = cache.refresh(hold.token().as_i64(), fetch(day));
        assert!(hold.run(refresh).await?, "nobody held since");
    }
    hold.release().await?;
    Ok(())
}

/// Asks the source of the prices for those of a day.
async fn fetch(day: u32) -> u32 {
    tokio::time::sleep(FETCH).await;
    day
}

/// Files on a shared disk. A refresh writes new files under its fence, and then makes them current
/// in one step; a refresh that stops earlier has changed nothing that a reader sees. It then
/// removes the old files. Without the lock, a reader that looks up the current files and reads them
/// afterwards might find them removed.
#[derive(Default)]
struct Cache(Mutex<Disk>);

#[derive(Default)]
struct Disk {
    /// The fence of the current files.
    current: i64,
    /// The day of the prices, by fence; `None` while the files are written.
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
                assert_eq!(current, 0, "the files were removed beneath a reader");
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

    /// One step, as an `UPDATE … WHERE fence <= $1` is. A holder that lost its hold without knowing
    /// it does not replace the files of the next holder.
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
