//! Workers start and finish each round of a batch together. One worker dies, and the others do not wait for
//! ever.
//!
//! ```text
//! cargo run --example double_barrier_batch                        # on memory
//! cargo run --example double_barrier_batch -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Config, Coordinator, Result};

const WORKERS: usize = 4;
const ROUNDS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://batch".to_owned());
    // Random for this example. A service has a fixed key.
    let key = format!("batch/{}", uuid::Uuid::new_v4());
    let mut config = Config::from_url(&url)?;
    // The others wait about this long for a worker that dies.
    config.ttl = Duration::from_secs(4);
    let workers = try_join_all((0..WORKERS).map(|_| latchwork::connect(config.clone()))).await?;

    let done = Arc::new(AtomicUsize::new(0));
    try_join_all(workers.iter().map(|worker| rounds(worker, &key, &done))).await?;
    println!("{WORKERS} workers went through {ROUNDS} rounds together");

    // One worker dies in this round.
    let barrier = |worker: &Coordinator| worker.double_barrier(key.as_str(), WORKERS as u32);
    let barriers: Vec<_> = workers.iter().map(barrier).collect::<Result<_>>()?;
    let mut inside = try_join_all(barriers.iter().map(|barrier| barrier.enter())).await?;
    let dead = inside.remove(0);
    latchwork::testing::crash(&workers[0]).await;
    let begun = std::time::Instant::now();
    try_join_all(inside.into_iter().map(|member| member.leave())).await?;
    println!("one worker died, and the others left {:?} later", begun.elapsed());
    assert!(!dead.is_held(), "its lease has ended");

    for worker in &workers[1..] {
        worker.close().await?;
    }
    Ok(())
}

async fn rounds(worker: &Coordinator, key: &str, done: &AtomicUsize) -> Result<()> {
    let barrier = worker.double_barrier(key, WORKERS as u32)?;
    for round in 0..ROUNDS {
        let inside = barrier.enter().await?;
        // All workers have finished the round before, and none the next one.
        let so_far = done.fetch_add(1, Ordering::AcqRel);
        assert!((round * WORKERS..(round + 1) * WORKERS).contains(&so_far), "not in step: {so_far}");
        inside.leave().await?;
        assert!(
            done.load(Ordering::Acquire) >= (round + 1) * WORKERS,
            "a worker left before all had finished"
        );
    }
    Ok(())
}
