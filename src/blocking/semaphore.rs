//! A fair semaphore with weighted permits.

use std::time::Duration;

use super::forward::{forward, keyed, recipe, verb};
use super::guard::Guard;
use crate::contracts::Entry;
use crate::{Acquire, Owner, Result, Token};

recipe! {
    /// A fair semaphore with weighted permits. As [`latchwork::Semaphore`](crate::Semaphore).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let exports = coordinator.semaphore_or_stored("exports", 3)?;
    /// let (light, heavy) = (exports.acquire(1)?, exports.acquire(2)?);
    /// assert!(exports.try_acquire(1)?.is_none());
    /// drop((light, heavy));
    /// # coordinator.close() }
    /// ```
    Semaphore
}

impl Semaphore {
    verb! {
        Semaphore, acquire(weight: u32) -> Permit;
        acquire_within, acquire_with;
        try_acquire, try_acquire_with;
        acquire_as, acquire_as_with, try_acquire_as, try_acquire_as_with;
    }

    /// The limit that this handle expects; `None` if it follows the stored one.
    pub fn limit(&self) -> Option<u32> {
        self.recipe.limit()
    }

    /// Stores another limit. As [`Semaphore::set_limit`](crate::Semaphore::set_limit), with its errors, and
    /// `InAsyncCode`.
    pub fn set_limit(&mut self, limit: u32) -> Result<()> {
        self.home.run(self.recipe.set_limit(limit))
    }

    /// Acquires, runs `work` under the hold, and releases it. Nothing stops the work at a loss. As
    /// [`Semaphore::with_permits`](crate::Semaphore::with_permits) otherwise.
    ///
    /// # Errors
    /// As [`acquire`](Self::acquire); `Lost` behind work whose hold was lost; `Unknown` when the release
    /// was not confirmed.
    pub fn with_permits<T>(&self, weight: u32, work: impl FnOnce(&Permit) -> T) -> Result<T> {
        self.acquire(weight)?.under(work)
    }

    forward! { Semaphore:
        /// The limit that is stored on the coordinator.
        fn stored_limit() -> Option<u32>;
        /// The holders and waiters, in order.
        fn queue(after: u64, most: usize) -> Vec<Entry>;
        /// Removes any client's node from the queue: for operators.
        fn force_release(sequence: u64) -> bool;
    }

    keyed!();
}

/// Held permits.
pub type Permit = Guard<crate::Permit>;

impl Permit {
    /// How many permits it holds.
    pub fn weight(&self) -> u32 {
        self.hold.weight()
    }

    /// How long the acquisition took.
    pub fn waited(&self) -> Duration {
        self.hold.waited()
    }

    /// The number that identifies this hold on the server. It is no fence: others hold beside it.
    pub fn token(&self) -> Token {
        self.hold.token()
    }
}
