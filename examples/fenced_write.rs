//! A holder is stopped past its lease, and goes on to write. The fencing token saves the data.
//!
//! ```text
//! cargo run --example fenced_write                        # on memory
//! cargo run --example fenced_write -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! No lock with a lease can prevent this. Between the last look at the lock and the write, a
//! process may stop for any length of time (a virtual machine moves, a laptop sleeps, `kill
//! -STOP`). In that time the lease runs out, and another process holds.

use latchwork::Ended;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use latchwork::{Config, LostReason, Result};
use tokio::sync::oneshot;

const SQL: &str = "UPDATE ledger SET total = $2, fence = $1 WHERE id = 7 AND fence <= $1";

/// The row with `id = 7`, in a database that has never heard of locks.
#[derive(Default)]
struct Ledger {
    total: &'static str,
    fence: i64,
}

impl Ledger {
    /// What most programs do: `UPDATE ledger SET total = $1 WHERE id = 7`.
    fn write(&mut self, total: &'static str) {
        self.total = total;
    }

    /// What they should do: [`SQL`]. Returns how many rows it changed; zero means that a later
    /// holder has written.
    fn write_fenced(&mut self, fence: i64, total: &'static str) -> usize {
        if self.fence > fence {
            return 0;
        }
        (self.total, self.fence) = (total, fence);
        1
    }
}

fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://bank".to_owned());
    let mut config = Config::from_url(&url)?;
    config.ttl = Duration::from_secs(4); // short, to keep the example short (ZooKeeper's default minimum)
    // Random, so that two runs of this example do not meet. A service has a fixed key.
    let key = format!("ledger/7-{}", uuid::Uuid::new_v4());
    let (plain, fenced) = (Mutex::new(Ledger::default()), Mutex::new(Ledger::default()));

    let (stops, stopped) = oneshot::channel();
    let (wake, asleep) = mpsc::channel();
    std::thread::scope(|scope| {
        let alice = scope.spawn(|| alice(&config, &key, &plain, &fenced, stops, asleep));
        let bob = bob(&config, &key, &plain, &fenced, stopped, wake);
        let alice = alice.join();
        bob?;
        alice.expect("no panic")
    })?;

    let (plain, fenced) = (plain.into_inner().expect("no panic"), fenced.into_inner().expect("no panic"));
    println!(
        "\nwithout fence: the total is {:?}. Bob's booking is gone, and no error was reported.",
        plain.total
    );
    println!("with fence:    the total is {:?}. {SQL}", fenced.total);
    assert_eq!((plain.total, fenced.total), ("100, says Alice", "250, says Bob"));
    Ok(())
}

/// She is stopped right before her write. Her runtime has one thread, so its stop also stops the
/// renewal of her lease, as in a stopped process.
#[tokio::main(flavor = "current_thread")]
async fn alice(
    config: &Config,
    key: &str,
    plain: &Mutex<Ledger>,
    fenced: &Mutex<Ledger>,
    stops: oneshot::Sender<()>,
    asleep: mpsc::Receiver<()>,
) -> Result<()> {
    let coordinator = latchwork::connect(config).await?;
    let hold = coordinator.mutex(key)?.acquire().await?;
    hold.check()?; // she does look right before
    println!(
        "Alice holds with fence {}, computes the total, and is stopped before she writes it …",
        hold.token()
    );
    stops.send(()).expect("Bob waits for it");
    // Blocks the whole thread, so none of her tasks runs.
    if asleep.recv().is_err() {
        return Ok(()); // Bob failed, and reports why
    }

    plain.lock().expect("no panic").write("100, says Alice");
    let rows = fenced.lock().expect("no panic").write_fenced(hold.token().as_i64(), "100, says Alice");
    println!("… Alice goes on where she was, and writes. With her fence: {rows} rows changed.");
    assert_eq!(rows, 0, "a stale write is refused");
    // A second look would have shown her the loss. It makes the gap small; only the fence closes
    // it.
    assert_eq!(hold.lost().ended(), Some(Ended::Lost(LostReason::Expired)));
    coordinator.close().await
}

#[tokio::main(flavor = "current_thread")]
async fn bob(
    config: &Config,
    key: &str,
    plain: &Mutex<Ledger>,
    fenced: &Mutex<Ledger>,
    stopped: oneshot::Receiver<()>,
    wake: mpsc::Sender<()>,
) -> Result<()> {
    let coordinator = latchwork::connect(config).await?;
    if stopped.await.is_err() {
        return Ok(()); // Alice failed before she was stopped, and reports why
    }
    let hold = coordinator.mutex(key)?.acquire().await?;
    println!(
        "Bob holds with fence {}, after {:.1?}: Alice's lease ran out. He writes.",
        hold.token(),
        hold.waited()
    );
    plain.lock().expect("no panic").write("250, says Bob");
    let rows = fenced.lock().expect("no panic").write_fenced(hold.token().as_i64(), "250, says Bob");
    assert_eq!(rows, 1, "the holder's write is taken");
    hold.release().await?;
    wake.send(()).expect("Alice is stopped until now");
    coordinator.close().await
}
