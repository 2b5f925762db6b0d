//! A fleet follows one configuration, and editors change it.
//!
//! ```text
//! cargo run --example shared_config                        # on memory
//! cargo run --example shared_config -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! Workers read a live view of the value, which costs no request. Editors change it with `compare_and_set`,
//! so no change is lost. One editor writes under a mutex with `write_while`: the server refuses its write
//! after a loss, even if the editor does not know of it.

use std::time::Duration;

use futures_util::future::try_join_all;
use latchwork::Expected;
use latchwork::{Compared, ErrorKind, Result, SharedValue};

const WORKERS: usize = 4;
const EDITORS: usize = 3;
const CHANGES: usize = 5;

#[tokio::main]
async fn main() -> Result<()> {
    // `memory://` alone is private to each `Coordinator`.
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://shared-config".to_owned());
    // Random for this example. A service has a fixed key.
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
        println!("a worker has seen {seen} of {} configurations before the last one", EDITORS * CHANGES);
    }

    // The editor does not check, and its write is refused.
    let edits = coordinator.mutex(key.as_str())?;
    let hold = edits.acquire().await?;
    config.write_while(&hold, "by the holder").await?;
    let holder = edits.queue().first(1).await?.remove(0);
    assert!(fleet[0].mutex(key.as_str())?.force_release(holder.sequence).await?);
    let late = config.write_while(&hold, "by a former holder").await;
    let error = late.expect_err("it has lost the lock");
    assert!(matches!(error.kind(), ErrorKind::Lost(_)), "{error}");
    println!("a write without the lock is refused: {error}");
    let now = config.read().await?.expect("it was written");
    assert_eq!(&*now.value, b"by the holder");

    assert!(config.delete().await?);
    for coordinator in fleet.into_iter().chain(editors).chain([coordinator]) {
        coordinator.close().await?;
    }
    Ok(())
}

async fn follow(config: SharedValue, last: String) -> Result<usize> {
    let mut view = config.watch().await?;
    for seen in 0.. {
        let now = view.changed().await?.expect("no client deletes it before the end");
        if &*now.value == last.as_bytes() {
            // This sends no request.
            assert_eq!(view.latest()?, Some(now));
            return Ok(seen);
        }
    }
    unreachable!("the loop has no end")
}

async fn add_one(config: &SharedValue) -> Result<()> {
    let mut now = config.read().await?.expect("it was written");
    loop {
        let text = String::from_utf8_lossy(&now.value);
        let changes: usize = text.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
        let next = format!("{} changes", changes + 1);
        match config.compare_and_set(Expected::Version(now.version), next).await? {
            Compared::Stored(_) => return Ok(()),
            Compared::Differs(cell) => now = cell.expect("no client deletes it before the end"),
        }
        // Another editor was faster.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
