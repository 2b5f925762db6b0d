//! A fair mutex.

use std::time::Duration;

use super::forward::{forward, keyed, recipe, verb};
use super::guard::{Guard, fences};
use crate::contracts::Entry;
use crate::{Acquire, Owner, Result};

recipe! {
    /// A fair mutex. As [`latchwork::Mutex`](crate::Mutex), which says what it promises.
    ///
    /// ```
    /// use std::time::Duration;
    /// use latchwork::{ErrorKind, Release, blocking};
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// let coordinator = blocking::connect("memory://")?;
    /// let invoices = coordinator.mutex("invoices/2026-11")?;
    /// let hold = invoices.acquire()?;
    /// println!("mine, with token {}", hold.token());
    /// let late = invoices.acquire_within(Duration::from_millis(10)).expect_err("it is held");
    /// assert_eq!(late.kind(), &ErrorKind::Timeout);
    /// assert_eq!(hold.release()?, Release::Released);
    /// coordinator.close()
    /// # }
    /// ```
    Mutex
}

impl Mutex {
    verb! {
        Mutex, acquire() -> MutexGuard;
        acquire_within, acquire_with;
        try_acquire, try_acquire_with;
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`Mutex::with_lock`](crate::Mutex::with_lock) otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` behind work whose hold was lost; `Unknown` when the release
    /// was not confirmed.
    pub fn with_lock<T>(&self, work: impl FnOnce(&MutexGuard) -> T) -> Result<T> {
        self.acquire()?.under(work)
    }

    forward! { Mutex:
        /// The holders and waiters, in order.
        fn queue(after: u64, most: usize) -> Vec<Entry>;
        /// Removes any client's node from the queue: for operators.
        fn force_release(sequence: u64) -> bool;
    }

    keyed!();
}

/// A held mutex.
pub type MutexGuard = Guard<crate::MutexGuard>;

impl MutexGuard {
    fences!();

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }
}
