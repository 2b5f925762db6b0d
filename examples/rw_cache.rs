//! A cache that many instances read and whoever finds it stale refreshes: once, not once by each.
//!
//! ```text
//! cargo run --example rw_cache                        # on memory
//! cargo run --example rw_cache -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Coordinator, Release, Result, RwLock};

const INSTANCES: usize = 4;
const DAYS: u32 = 3;
/// How long it takes to fetch a day's prices.
const FETCH: Duration = Duration::from_millis(50);
/// Readers who have come in wait so long for the others.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<()> {
    // A name, since `memory://` alone is private to each Coordinator.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let key = format!("prices-{:08x}", rand::random::<u32>());
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

    // Readers are in together: each stays until all of them are there.
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
    assert!(!cache.publish(stopped), "who held before is refused");
    try_join_all(fleet.iter().map(Coordinator::close)).await?;
    Ok(())
}

/// What a loss does: `run` drops the work wherever it is. Answers the fence that it wrote with.
async fn half_a_refresh(lock: &RwLock, cache: &Cache) -> Result<i64> {
    let hold = lock.write().await?;
    let fence = hold.token().as_i64();
    let work = tokio::time::timeout(FETCH / 2, cache.refresh(fence, DAYS));
    assert!(hold.run(work).await?.is_err(), "it is not done yet");
    println!("a refresh with fence {fence} was stopped half-way: nobody sees what it has written");
    assert_eq!(hold.release().await?, Release::Released);
    Ok(fence)
}

/// Reads; refreshes first if what it read is stale.
async fn prices_of(day: u32, instance: usize, lock: &RwLock, cache: &Cache) -> Result<()> {
    // Released before it asks to write: a reader that kept its hold and asked for more would wait for itself.
    let seen = lock.with_read(async |_| cache.read().await).await?;
    if seen >= day {
        return Ok(());
    }
    let hold = lock.write().await?;
    // Another may have been faster between the two holds: look again.
    if hold.run(cache.read()).await? < day {
        println!("day {day}: instance {instance} refreshes, with fence {}", hold.token());
        assert!(hold.run(cache.refresh(hold.token().as_i64(), day)).await?, "nobody held since");
    }
    assert_eq!(hold.release().await?, Release::Released);
    Ok(())
}

/// Files on a shared disk. Whoever refreshes writes aside, under its fence, and then has that count in one step: stopped
/// before, it has changed nothing that anybody reads. The files before are removed then: a reader, who looks
/// which count and reads them after that, would not find them any more beside a writer.
#[derive(Default)]
struct Cache(Mutex<Disk>);

#[derive(Default)]
struct Disk {
    /// The fence of those that count.
    current: i64,
    /// The day whose prices they are, by fence; `None` while they are written.
    files: BTreeMap<i64, Option<u32>>,
    refreshes: u32,
}

impl Cache {
    /// The day whose prices it has; 0 before the first.
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

    /// Answers whether what it wrote counts.
    async fn refresh(&self, fence: i64, day: u32) -> bool {
        self.disk().files.insert(fence, None);
        tokio::time::sleep(FETCH).await;
        self.disk().files.insert(fence, Some(day));
        self.publish(fence)
    }

    /// One step, as a row with `WHERE fence <= $1`: of one who has lost its hold and does not know it, the next holder's stay.
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
