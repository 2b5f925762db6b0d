//! The faults in force, as one value that every connection watches.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The way that bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: replies and pushes.
    ToClient,
}

/// What the proxy does to its traffic now. The default is: nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) refuse: bool,
    // By direction, as the next two.
    pub(super) held: [bool; 2],
    pub(super) delay: [Duration; 2],
    /// Bytes per second.
    pub(super) rate: [Option<u32>; 2],
    /// Connections made before this many cuts are to close.
    pub(super) cuts: u64,
    /// A reply held on one connection is let go when this grows.
    pub(super) resumes: u64,
}

impl Faults {
    /// Takes every fault back. What was counted stays, since connections compare with it.
    pub(super) fn resume(&mut self) {
        *self = Faults { cuts: self.cuts, resumes: self.resumes + 1, ..Faults::default() };
    }
}

/// Waits until a chunk that came at `received` may go on: the direction is not held, the delay has
/// passed, and `kept` (the `resumes` at which this one connection was held) is over.
///
/// Returns at once when the proxy is gone: its connections are being dropped then.
pub(super) async fn pass(
    faults: &mut watch::Receiver<Faults>,
    direction: Direction,
    received: Instant,
    kept: Option<u64>,
) {
    loop {
        let now = *faults.borrow_and_update();
        let due = received + now.delay[direction as usize];
        let held = now.held[direction as usize] || kept == Some(now.resumes);
        let waits = async { if held { std::future::pending().await } else { sleep_until(due).await } };
        tokio::select! {
            () = waits => return,
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits as long as so many bytes take on a narrow way, or until it is one no more.
pub(super) async fn squeeze(faults: &mut watch::Receiver<Faults>, direction: Direction, bytes: usize) {
    let begun = Instant::now();
    loop {
        let Some(rate) = faults.borrow_and_update().rate[direction as usize] else { return };
        let due = begun + Duration::from_secs_f64(bytes as f64 / f64::from(rate.max(1)));
        tokio::select! {
            () = sleep_until(due) => return,
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits until neither direction is held: a new connection reaches the server only then.
pub(super) async fn open(faults: &mut watch::Receiver<Faults>) {
    // An error means that the proxy is gone, and this connection with it.
    let _ = faults.wait_for(|now| now.held == [false; 2]).await;
}

/// Completes when the connections of `since` are to close.
pub(super) async fn cut(faults: &mut watch::Receiver<Faults>, since: u64) {
    // As above: no proxy, no connection.
    let _ = faults.wait_for(|now| now.cuts > since).await;
}
