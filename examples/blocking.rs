//! A batch on plain threads, without a runtime. Each thread books its invoices under one lock, and stops when
//! it loses it.
//!
//! ```text
//! cargo run --example blocking                        # on memory
//! cargo run --example blocking -- redis://localhost   # or zookeeper://…, or etcd://… with --features etcd
//! ```

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use latchwork::blocking::BlockOn;
use latchwork::{Coordinator, Ended, Error, LostReason, MutexGuard, Result};

const THREADS: u64 = 4;
const INVOICES: u64 = 5;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory://".to_owned());
    // Connects, and releases everything at the end, also after an error or a panic.
    latchwork::with(&url, async |coordinator| {
        let ledger = Ledger::default();
        thread::scope(|scope| {
            let workers: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| work(&coordinator, &ledger))).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
        })?;
        let Book { booked, fence } = ledger.0.into_inner().expect("no worker panics");
        println!("{THREADS} threads booked {booked} invoices, the last one with token {fence}");
        assert_eq!(booked, THREADS * INVOICES);
        stops_at_a_loss(&coordinator)
    })
    .block_on()
}

fn work(coordinator: &Coordinator, ledger: &Ledger) -> Result<()> {
    let lock = coordinator.mutex("examples/blocking")?;
    for _ in 0..INVOICES {
        let hold = lock.acquire().within(PATIENCE).block_on()?; // this thread waits for its turn
        ledger.book(&hold)?;
        hold.release().block_on()?; // the result matters if no database checks the token
    }
    Ok(())
}

/// A loss does not stop a thread: check between steps.
fn stops_at_a_loss(coordinator: &Coordinator) -> Result<()> {
    let hold =
        coordinator.mutex("examples/blocking")?.acquire().max_hold(Duration::from_secs(2)).block_on()?;
    // A second thread learns of the loss at once.
    let lost = hold.lost();
    let watching = thread::spawn(move || lost.block_on());
    let mut steps = 0;
    while hold.is_held() {
        thread::sleep(Duration::from_millis(20)); // the work
        steps += 1;
    }
    let stopped = hold.check().expect_err("it was lost");
    println!("stopped after {steps} steps: {stopped}");
    assert_eq!(stopped.lost_reason(), Some(LostReason::MaxHold));
    assert_eq!(watching.join().expect("no panic")?, Ended::Lost(LostReason::MaxHold));
    Ok(())
}

/// In place of a database. One statement checks the token and adds 1, so it needs no claim: `UPDATE … SET
/// booked = booked + 1, fence = $1 WHERE fence < $1`.
#[derive(Default)]
struct Ledger(Mutex<Book>);

#[derive(Default)]
struct Book {
    booked: u64,
    fence: i64,
}

impl Ledger {
    fn book(&self, hold: &MutexGuard) -> Result<()> {
        let mut book = self.0.lock().expect("no worker panics");
        let fence = hold.token().as_i64();
        if fence <= book.fence {
            return Err(Error::invalid("fence", format!("{fence} is not above {}", book.fence)));
        }
        *book = Book { booked: book.booked + 1, fence };
        Ok(())
    }
}
