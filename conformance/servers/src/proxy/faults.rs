use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the client to the server: requests.
    ToServer,
    /// From the server to the client: replies and pushes.
    ToClient,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Faults {
    pub(super) refuse: bool,
    pub(super) held: [bool; 2],
    pub(super) delay: [Duration; 2],
    pub(super) rate: [Option<u32>; 2],
    /// A connection from before the last cut closes.
    pub(super) cuts: u64,
    /// A held reply continues when this grows.
    pub(super) resumes: u64,
}

impl Faults {
    /// The counts remain, because connections compare with them.
    pub(super) fn resume(&mut self) {
        *self = Faults { cuts: self.cuts, resumes: self.resumes + 1, ..Faults::default() };
    }
}

/// Waits until a chunk that came at `received` may pass: the direction is not held, the delay is over, and
/// `resumes` is above `kept`, its value when this connection was held.
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

/// Waits for the time of the bytes on a narrow link, or until it is not narrow.
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

/// A new connection reaches the server only when neither direction is held.
pub(super) async fn open(faults: &mut watch::Receiver<Faults>) {
    // An error: the proxy and this connection are gone.
    let _ = faults.wait_for(|now| now.held == [false; 2]).await;
}

/// Completes when connections from the time of `since` cuts must close.
pub(super) async fn cut(faults: &mut watch::Receiver<Faults>, since: u64) {
    let _ = faults.wait_for(|now| now.cuts > since).await;
}
