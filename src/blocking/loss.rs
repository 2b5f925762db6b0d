//! How the end of a hold reaches a thread.

use std::fmt;
use std::time::Duration;

use super::home::Home;
use crate::{Ended, LostReason, Result};

/// Says when a hold ends, lost or released: by a look, or by waiting. A thread beside the work waits
/// for it and stops the work. As [`latchwork::Loss`](crate::Loss).
///
/// ```
/// use std::thread;
/// use latchwork::{Ended, Release, blocking};
///
/// # fn main() -> latchwork::Result<()> {
/// let coordinator = blocking::connect("memory://")?;
/// let hold = coordinator.mutex("ledger")?.acquire()?;
/// let lost = hold.lost();
/// let watching = thread::spawn(move || lost.wait()); // stop the work when this returns
/// assert_eq!(hold.release()?, Release::Released);
/// assert_eq!(watching.join().expect("no panic")?, Ended::Released);
/// # coordinator.close() }
/// ```
#[derive(Clone)]
pub struct Loss {
    loss: crate::Loss,
    home: Home,
}

impl Loss {
    pub(super) fn of(loss: crate::Loss, home: &Home) -> Self {
        Self { loss, home: home.clone() }
    }

    /// The key. As [`Loss::key`](crate::Loss::key).
    pub fn key(&self) -> &str {
        self.loss.key()
    }

    /// How it ended, or `None` while it is held; by the clock at this call.
    pub fn ended(&self) -> Option<Ended> {
        self.loss.ended()
    }

    /// Why it is no longer held, or `None` while it is; by the clock at this call.
    pub fn reason(&self) -> Option<LostReason> {
        self.loss.reason()
    }

    /// Where its lease was lost, of a hold over both sides of a move. As [`Loss::lost_on`](crate::Loss::lost_on).
    pub fn lost_on(&self) -> Option<String> {
        self.loss.lost_on()
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// `InAsyncCode` only.
    pub fn wait(&self) -> Result<Ended> {
        let loss = self.loss.clone();
        self.home.run(async { Ok(loss.await) })
    }

    /// Waits for the end, for this long at most; `None` if it is still held then.
    ///
    /// # Errors
    /// `InAsyncCode` only.
    pub fn wait_within(&self, within: Duration) -> Result<Option<Ended>> {
        let loss = self.loss.clone();
        self.home.run_for(within, async { Ok(loss.await) })
    }
}

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.loss.fmt(f)
    }
}
