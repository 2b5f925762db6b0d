//! A job that cron starts on every host, and only one host runs.
//!
//! ```text
//! cargo run --example cron_on_many_hosts                        # on memory
//! cargo run --example cron_on_many_hosts -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```

use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::{Coordinator, ErrorKind, MutexGuard, Result};

const LATE: [Duration; 5] =
    [Duration::ZERO, Duration::ZERO, Duration::ZERO, Duration::from_millis(300), Duration::from_secs(1)];
/// Much longer than clocks differ, and much shorter than the time between two ticks.
const TAKEN: Duration = Duration::from_secs(8);

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://hosts".to_owned());
    // Random for this example. A service has a fixed key.
    let key = format!("cron/report-{}", uuid::Uuid::new_v4());

    let hosts = try_join_all(LATE.iter().map(|_| latchwork::connect(&url))).await?;
    let ticks = hosts.iter().enumerate().map(|(number, host)| tick(number, host, &key));
    let ran = try_join_all(ticks).await?.into_iter().filter(|ran| *ran).count();

    println!("{} hosts had the job in their crontab, {ran} ran it.", hosts.len());
    assert_eq!(ran, 1, "one host runs the job");
    try_join_all(hosts.iter().map(Coordinator::close)).await?;
    Ok(())
}

/// Returns whether the job ran here.
async fn tick(number: usize, host: &Coordinator, key: &str) -> Result<bool> {
    tokio::time::sleep(LATE[number]).await;
    let late = LATE[number].as_secs_f32();
    let Some(hold) = try_for(host, key).await? else {
        println!("host {number}, {late:.1} s late: another host has run the job");
        return Ok(false);
    };
    println!("host {number}, {late:.1} s late: runs the job, with token {}", hold.token());
    hold.run(job()).await?;
    // The lock stays held for the rest of the minimum time, and `close` waits for its end.
    if let Err(error) = hold.release().await {
        println!("host {number}: another host may have run the job too: {error}");
    }
    Ok(true)
}

async fn try_for(host: &Coordinator, key: &str) -> Result<Option<MutexGuard>> {
    let lock = host.mutex(key)?;
    // The job takes 10 ms: without the minimum, the host with the late clock would run it again.
    match lock.try_acquire().min_hold(TAKEN).await? {
        // ZooKeeper may refuse all simultaneous tries. In the queue, one host is first, and the others give
        // up long before the lock is free again.
        None if !host.capabilities().clean_try => {
            match lock.acquire().min_hold(TAKEN).within(TAKEN / 3).await {
                // Another host runs the job. (An outage gives `Unavailable`.)
                Err(error) if error.kind() == ErrorKind::Timeout => Ok(None),
                acquired => acquired.map(Some),
            }
        }
        tried => Ok(tried),
    }
}

async fn job() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}
