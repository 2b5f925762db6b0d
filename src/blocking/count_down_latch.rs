//! A latch that opens when it was counted down.

use std::time::Duration;

use super::forward::{forward, keyed, recipe};
use crate::Result;

recipe! {
    /// A latch that opens when it was counted down. As [`latchwork::CountDownLatch`](crate::CountDownLatch).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let loaded = coordinator.count_down_latch("loaded", 1)?;
    /// assert_eq!(loaded.count_down()?, 0);
    /// loaded.wait()?;
    /// # coordinator.close() }
    /// ```
    CountDownLatch
}

impl CountDownLatch {
    /// From the next change by this handle on, it goes when nobody has used it for `time`. Validates,
    /// no I/O. As [`CountDownLatch::with_time_to_idle`](crate::CountDownLatch::with_time_to_idle), with its errors.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.recipe = self.recipe.with_time_to_idle(time)?;
        Ok(self)
    }

    forward! { CountDownLatch:
        /// How many count-downs are missing.
        fn count() -> u32;
        /// Counts down by one, and answers how many are missing.
        fn count_down() -> u32;
        /// Waits until it is open.
        fn wait() -> ();
        /// As [`wait`](Self::wait), for this long at most.
        fn wait_within(within: Duration) -> ();
        /// Deletes it: it is closed again. Answers whether it was there.
        fn delete() -> bool;
    }

    keyed!();
}
