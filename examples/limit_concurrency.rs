//! A database bears four exports at a time, whichever of the fleet's instances run them.
//!
//! ```text
//! cargo run --example limit_concurrency                        # on memory
//! cargo run --example limit_concurrency -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! A semaphore limits *concurrency*, not *rate*: how many run at a time, not how many start in a second. Ten thousand short
//! exports may pass through it in a second; a rate limiter is another thing.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use latchwork::{Coordinator, ErrorKind, Hold, Result, Semaphore};

const INSTANCES: usize = 3;
const LIMIT: u32 = 4;
const EXPORTS: usize = 12;
/// Fixed, since the limit is stored under it for good: each run finds that of the first. Where it was stored with another
/// value, the first acquisition below ends with `Conflict`, which says both.
const KEY: &str = "examples/limit_concurrency";

#[tokio::main]
async fn main() -> Result<()> {
    // A name, since `memory://` alone is private to each Coordinator.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    let fleet = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;
    let exports = |instance: usize, limit| fleet[instance].semaphore(KEY, limit);

    // A heavy one takes all permits or none; meanwhile there is none for others.
    let heavy = exports(0, LIMIT)?.acquire(LIMIT).await?;
    assert!(exports(1, LIMIT)?.try_acquire(1).await?.is_none(), "all permits are taken");
    println!("instance 0 took all {LIMIT} permits: a try of instance 1 was refused");
    // The first acquisition stores the limit, for good. An instance with another idea of it is told.
    let conflict = exports(2, LIMIT + 1)?.acquire(1).await.expect_err("another limit is stored");
    assert_eq!(conflict.kind(), &ErrorKind::Conflict);
    println!("instance 2 came with the limit {}: {conflict}", LIMIT + 1);
    heavy.release().await?;

    let (database, start) = (Database::default(), Instant::now());
    let crowd = (0..EXPORTS).map(|number| {
        let weight = if number % 4 == 3 { 3 } else { 1 };
        let semaphore = exports(number % INSTANCES, LIMIT);
        let database = &database;
        async move { export(&semaphore?, weight, database).await }
    });
    try_join_all(crowd).await?;

    let (peak, took) = (database.peak.into_inner(), start.elapsed());
    println!(
        "{EXPORTS} exports by {INSTANCES} instances in {took:.1?}: a load of {peak} at most, of {LIMIT} allowed"
    );
    assert!((1..=LIMIT).contains(&peak), "never more than the limit");
    try_join_all(fleet.iter().map(Coordinator::close)).await?;
    Ok(())
}

async fn export(semaphore: &Semaphore, weight: u32, database: &Database) -> Result<()> {
    let permit = semaphore.acquire(weight).await?; // in order: nobody overtakes a heavy one that does not fit yet
    permit.run(database.export(weight)).await?;
    permit.release().await?;
    Ok(())
}

/// Knows how much was asked of it at once.
#[derive(Default)]
struct Database {
    load: AtomicU32,
    peak: AtomicU32,
}

impl Database {
    async fn export(&self, weight: u32) {
        let load = self.load.fetch_add(weight, Ordering::SeqCst) + weight;
        self.peak.fetch_max(load, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.load.fetch_sub(weight, Ordering::SeqCst);
    }
}
