//! A number that all clients share.

use std::time::Duration;

use super::forward::{forward, keyed, recipe};
use crate::Result;

recipe! {
    /// A number that all clients share. As [`latchwork::Counter`](crate::Counter).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let visits = coordinator.counter("visits")?;
    /// assert_eq!(visits.add(3)?, 3);
    /// assert!(visits.compare_and_set(3, 10)?);
    /// assert_eq!(visits.get()?, 10);
    /// # coordinator.close() }
    /// ```
    Counter
}

impl Counter {
    /// From the next change by this handle on, it goes when nobody has used it for `time`. Validates,
    /// no I/O. As [`Counter::with_time_to_idle`](crate::Counter::with_time_to_idle), with its errors.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.recipe = self.recipe.with_time_to_idle(time)?;
        Ok(self)
    }

    forward! { Counter:
        /// The number now.
        fn get() -> i64;
        /// Adds a number, and answers the sum.
        fn add(number: i64) -> i64;
        /// Sets it to `new` if it is `expected`. Answers whether it was.
        fn compare_and_set(expected: i64, new: i64) -> bool;
        /// Deletes it: it is 0 again. Answers whether it was there.
        fn delete() -> bool;
    }

    keyed!();
}
