//! A holder stops after its read, loses its lease, and writes late. The fencing token protects the data, if
//! each holder claims it before its first read.
//!
//! ```text
//! cargo run --example fenced_write                        # on memory
//! cargo run --example fenced_write -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```
//!
//! No lock with a lease prevents the late write: a process may stop for any time between its last check and
//! the write (a laptop sleeps, `kill -STOP`).
//!
//! One row checks the token at each write, and loses Alice's update. The other row is claimed first, and
//! refuses Alice.

use std::sync::{Mutex, mpsc};
use std::time::Duration;

use latchwork::{Config, Ended, LostReason, Result};
use tokio::sync::oneshot;

const CHECKED_WRITE: &str = "UPDATE ledger SET total = $2, fence = $1 WHERE id = 7 AND fence <= $1";
const CLAIM: &str = "UPDATE ledger SET fence = $1 WHERE id = 7 AND fence <= $1";
const WRITE: &str = "UPDATE ledger SET total = $2 WHERE id = 7 AND fence = $1";

/// In a database that knows nothing of locks.
#[derive(Default)]
struct Row {
    total: i64,
    fence: i64,
}

impl Row {
    /// [`CHECKED_WRITE`] is not enough.
    fn write_checked(&mut self, token: i64, total: i64) -> usize {
        if token < self.fence {
            return 0;
        }
        (self.total, self.fence) = (total, token);
        1
    }

    /// [`CLAIM`] comes before the first read.
    fn claim(&mut self, token: i64) -> usize {
        if token < self.fence {
            return 0;
        }
        self.fence = token;
        1
    }

    /// [`WRITE`] comes after the claim.
    fn write(&mut self, token: i64, total: i64) -> usize {
        if token != self.fence {
            return 0;
        }
        self.total = total;
        1
    }
}

#[derive(Default)]
struct Database {
    checked: Row,
    claimed: Row,
}

impl Database {
    fn claim_and_read(&mut self, token: i64) -> [i64; 2] {
        assert_eq!(self.claimed.claim(token), 1, "the database accepts the claim of the holder");
        [self.checked.total, self.claimed.total]
    }

    /// Returns how many rows each write changed.
    fn add(&mut self, token: i64, read: [i64; 2], amount: i64) -> [usize; 2] {
        let [checked, claimed] = read;
        [self.checked.write_checked(token, checked + amount), self.claimed.write(token, claimed + amount)]
    }
}

fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://bank".to_owned());
    let mut config = Config::from_url(&url)?;
    config.ttl = Duration::from_secs(4); // short, to keep the example short (ZooKeeper's default minimum)
    // Random for this example. A service has a fixed key.
    let key = format!("ledger/7-{}", uuid::Uuid::new_v4());
    let database = Mutex::new(Database::default());

    let (stops, stopped) = oneshot::channel();
    let (wake, asleep) = mpsc::channel();
    let (writes, written) = oneshot::channel();
    std::thread::scope(|scope| {
        let alice = scope.spawn(|| alice(&config, &key, &database, stops, asleep, writes));
        let bob = bob(&config, &key, &database, stopped, wake, written);
        let alice = alice.join();
        bob?;
        alice.expect("no panic")
    })?;

    let Database { checked, claimed } = database.into_inner().expect("no panic");
    println!("\ncheck at each write: the total is {}. Both writes succeeded, so it should", checked.total);
    println!("                     be 350. Alice's 100 is lost, and no error was reported.");
    println!("                     {CHECKED_WRITE}");
    println!("claim before a read: the total is {}. Alice's write was refused, so she", claimed.total);
    println!("                     knows that she must add her 100 again.");
    println!("                     {CLAIM}");
    println!("                     {WRITE}");
    assert_eq!(checked.total, 250, "100 and 250 were accepted, and 100 is lost");
    assert_eq!(claimed.total, 250, "only 250 was accepted, and nothing is lost");
    Ok(())
}

/// Her runtime has one thread, so the renewal of her lease stops too, as in a stopped process.
#[tokio::main(flavor = "current_thread")]
async fn alice(
    config: &Config,
    key: &str,
    database: &Mutex<Database>,
    stops: oneshot::Sender<()>,
    asleep: mpsc::Receiver<()>,
    writes: oneshot::Sender<()>,
) -> Result<()> {
    let coordinator = latchwork::connect(config).await?;
    let hold = coordinator.mutex(key)?.acquire().await?;
    let token = hold.token().as_i64();
    let read = database.lock().expect("no panic").claim_and_read(token);
    hold.check()?; // the lock is still held right before her write
    println!("Alice holds with token {token}, reads {}, and stops before she writes …", read[0]);
    stops.send(()).expect("Bob waits for it");
    if asleep.recv().is_err() {
        return Ok(()); // Bob failed, and reports the reason
    }

    let [checked, claimed] = database.lock().expect("no panic").add(token, read, 100);
    println!("… Alice continues, and adds 100. Check at each write: {checked} row changed.");
    println!("  Claimed before the read: {claimed} rows changed.");
    assert_eq!(checked, 1, "the check at each write accepts her, because Bob has not written yet");
    assert_eq!(claimed, 0, "the claim of Bob refuses her");
    writes.send(()).expect("Bob waits for it");
    // A second check of the lock makes the gap small. Only the token closes it.
    assert_eq!(hold.lost().ended(), Some(Ended::Lost(LostReason::Expired)));
    coordinator.close().await
}

/// Bob holds after Alice's lease has ended, and writes after her.
#[tokio::main(flavor = "current_thread")]
async fn bob(
    config: &Config,
    key: &str,
    database: &Mutex<Database>,
    stopped: oneshot::Receiver<()>,
    wake: mpsc::Sender<()>,
    written: oneshot::Receiver<()>,
) -> Result<()> {
    let coordinator = latchwork::connect(config).await?;
    if stopped.await.is_err() {
        return Ok(()); // Alice failed before she stopped, and reports the reason
    }
    let hold = coordinator.mutex(key)?.acquire().await?;
    let token = hold.token().as_i64();
    let read = database.lock().expect("no panic").claim_and_read(token);
    println!(
        "Bob holds with token {token} after {:.1?}, because Alice's lease ended. He reads {}.",
        hold.waited(),
        read[0]
    );
    wake.send(()).expect("Alice waits for it");
    if written.await.is_err() {
        return Ok(()); // Alice failed, and reports the reason
    }
    let [checked, claimed] = database.lock().expect("no panic").add(token, read, 250);
    println!("Bob adds 250: {checked} row and {claimed} row changed.");
    assert_eq!([checked, claimed], [1, 1], "the database accepts the holder's writes");
    hold.release().await?;
    coordinator.close().await
}
