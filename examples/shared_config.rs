//! A fleet follows one configuration, which an elected editor changes under a lock.
//!
//! ```text
//! cargo run --example shared_config                        # on memory
//! cargo run --example shared_config -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! Workers look at a live view of the value, which costs no request. Editors change it: those that
//! add to it compare and set, so that no change is lost. One edits under a mutex, and its write is
//! refused once it has lost the mutex, whatever it believes.

use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::Expected;
use latchwork::{Compared, ErrorKind, Result, SharedValue};

const WORKERS: usize = 4;
const EDITORS: usize = 3;
const CHANGES: usize = 5;

#[tokio::main]
async fn main() -> Result<()> {
    // A name, since `memory://` alone is private to each Coordinator.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://shared-config".to_owned());
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let key = format!("config/{}", uuid::Uuid::new_v4());

    let coordinator = latchwork::connect(&url).await?;
    let config = coordinator.shared_value(key.as_str())?;
    config.write("").await?;
    let fleet = try_join_all((0..WORKERS).map(|_| latchwork::connect(&url))).await?;
    let last = format!("{} changes", EDITORS * CHANGES);
    let workers: Vec<_> = fleet
        .iter()
        .map(|worker| Ok(tokio::spawn(follow(worker.shared_value(key.as_str())?, last.clone()))))
        .collect::<Result<_>>()?;

    let editors = try_join_all((0..EDITORS).map(|_| latchwork::connect(&url))).await?;
    try_join_all(editors.iter().map(|editor| async {
        let config = editor.shared_value(key.as_str())?;
        for _ in 0..CHANGES {
            add_one(&config).await?;
        }
        Ok::<_, latchwork::Error>(())
    }))
    .await?;
    for worker in workers {
        let seen = worker.await.expect("no panic")?;
        println!("a worker has seen {seen} of {} configurations, and the last one", EDITORS * CHANGES);
    }

    // An operator takes the editor's lock away. The editor has not looked, and writes: refused.
    let edits = coordinator.mutex(key.as_str())?;
    let hold = edits.acquire().await?;
    config.write_while(&hold, "by the holder").await?;
    let holder = edits.queue().first(1).await?.remove(0);
    assert!(fleet[0].mutex(key.as_str())?.force_release(holder.sequence).await?);
    let late = config.write_while(&hold, "by a holder of the past").await;
    let error = late.expect_err("it does not hold");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    println!("a write without the lock is refused: {error}");
    let now = config.read().await?.expect("it was written");
    assert_eq!(&*now.value, b"by the holder");

    // It stays until it is deleted.
    assert!(config.delete().await?);
    for coordinator in fleet.into_iter().chain(editors).chain([coordinator]) {
        coordinator.close().await?;
    }
    Ok(())
}

/// Follows the configuration until it is the last one. Answers how many it has seen.
async fn follow(config: SharedValue, last: String) -> Result<usize> {
    let mut view = config.watch().await?;
    for seen in 0.. {
        let now = view.changed().await?.expect("nobody deletes it before the end");
        if &*now.value == last.as_bytes() {
            // No request: this is what was seen last.
            assert_eq!(view.latest()?, Some(now));
            return Ok(seen);
        }
    }
    unreachable!("it is seen before that")
}

/// Changes the configuration, whoever changes it meanwhile.
async fn add_one(config: &SharedValue) -> Result<()> {
    let mut now = config.read().await?.expect("it was written");
    loop {
        let text = String::from_utf8_lossy(&now.value);
        let changes: usize = text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let next = format!("{} changes", changes + 1);
        match config.compare_and_set(Expected::Version(now.version), next).await? {
            Compared::Stored(_) => return Ok(()),
            Compared::Differs(cell) => now = cell.expect("nobody deletes it before the end"),
        }
        // Somebody was faster.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
