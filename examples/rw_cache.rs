//! A cache that many instances read and whoever finds it stale refreshes: once, not once by each.
//!
//! ```text
//! cargo run --example rw_cache                        # on memory
//! cargo run --example rw_cache -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Coordinator, Fenced, Hold, Result, RwLock};

const INSTANCES: usize = 4;
const DAYS: u32 = 3;

#[tokio::main]
async fn main() -> Result<()> {
    // A name, since `memory://` alone is private to each Coordinator.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let key = format!("prices-{:08x}", rand::random::<u32>());
    let fleet = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;

    let cache = Cache::default();
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
            hold.run(all_in.wait()).await?;
            assert_eq!(cache.read().await, DAYS);
            hold.release().await
        }
    });
    try_join_all(readers).await?;

    let refreshes = cache.refreshes.into_inner();
    println!(
        "{INSTANCES} instances over {DAYS} days: {refreshes} refreshes, and nobody read a half-written cache."
    );
    println!("Then all {INSTANCES} read at once: readers wait for writers only.");
    assert_eq!(refreshes, DAYS, "each day is fetched once");
    try_join_all(fleet.iter().map(Coordinator::close)).await?;
    Ok(())
}

/// Reads; refreshes first if what it read is stale.
async fn prices_of(day: u32, instance: usize, lock: &RwLock, cache: &Cache) -> Result<()> {
    let hold = lock.read().await?;
    let seen = hold.run(cache.read()).await?;
    // Before it asks to write: a reader that kept its hold and asked for more would wait for itself.
    hold.release().await?;
    if seen >= day {
        return Ok(());
    }
    let hold = lock.write().await?;
    // Another may have been faster between the two holds: look again.
    if hold.run(cache.read()).await? < day {
        println!("day {day}: instance {instance} refreshes, with fence {}", hold.token());
        hold.run(cache.refresh(day)).await?;
    }
    hold.release().await?;
    Ok(())
}

/// Files on a shared disk. It takes two steps to write and two to read, so that a reader beside a writer would see
/// one day's prices with another's index.
#[derive(Default)]
struct Cache {
    prices: AtomicU32,
    index: AtomicU32,
    refreshes: AtomicU32,
}

impl Cache {
    async fn read(&self) -> u32 {
        let day = self.prices.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(day, self.index.load(Ordering::SeqCst), "a reader saw a half-written cache");
        day
    }

    async fn refresh(&self, day: u32) {
        self.prices.store(day, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.index.store(day, Ordering::SeqCst);
        self.refreshes.fetch_add(1, Ordering::SeqCst);
    }
}
