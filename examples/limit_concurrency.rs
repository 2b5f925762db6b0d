//! All instances of a fleet together run at most four exports of a database at a time.
//!
//! ```text
//! cargo run --example limit_concurrency                        # on memory
//! cargo run --example limit_concurrency -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! A semaphore limits *concurrency*, not *rate*: the number of exports that run at a time, not that start in
//! a second.

use latchwork::Limit;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use latchwork::{Coordinator, ErrorKind, Result, Semaphore};

const INSTANCES: usize = 3;
const LIMIT: u32 = 4;
const EXPORTS: usize = 12;
/// Fixed, because the limit is stored under this key for ever. An operator may change it.
const KEY: &str = "examples/limit_concurrency";

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://fleet".to_owned());
    let fleet = try_join_all((0..INSTANCES).map(|_| latchwork::connect(&url))).await?;
    // If no limit is stored, the first acquisition stores this one, for all clients.
    let exports = |instance: usize| fleet[instance].semaphore(KEY, Limit::UnlessStored(LIMIT));
    exports(0)?.acquire(1).await?.release().await?;
    let limit = exports(0)?.stored_limit().await?.expect("stored by the acquisition, if not before");

    // A heavy export takes all permits or none.
    let heavy = exports(0)?.acquire(limit).await?;
    assert!(exports(1)?.try_acquire(1).await?.is_none(), "all permits are taken");
    println!("instance 0 took all {limit} permits: the try of instance 1 was refused");
    let conflict = fleet[2].semaphore(KEY, limit + 1)?.acquire(1).await.expect_err("another limit is stored");
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    println!("instance 2 demanded the limit {}: {conflict}", limit + 1);
    heavy.release().await?;

    let (database, start) = (Database::default(), Instant::now());
    let crowd = (0..EXPORTS).map(|number| {
        let weight = if number % 4 == 3 { limit.min(3) } else { 1 };
        let semaphore = exports(number % INSTANCES);
        let database = &database;
        async move { export(&semaphore?, weight, database).await }
    });
    try_join_all(crowd).await?;

    let (peak, took) = (database.peak.into_inner(), start.elapsed());
    println!(
        "{EXPORTS} exports by {INSTANCES} instances in {took:.1?}: at most {peak} of {limit} permits were in use"
    );
    assert!((1..=limit).contains(&peak), "never more than the limit");
    try_join_all(fleet.iter().map(Coordinator::close)).await?;
    Ok(())
}

async fn export(semaphore: &Semaphore, weight: u32, database: &Database) -> Result<()> {
    // No export overtakes a heavy one that does not fit yet.
    semaphore.acquire(weight).with(async |_| database.export(weight).await).await
}

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
