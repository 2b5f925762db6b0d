//! Unique, rising ids.

use std::time::Duration;

use super::forward::{forward, keyed, recipe};
use crate::Result;

recipe! {
    /// Unique ids. As [`latchwork::IdGenerator`](crate::IdGenerator).
    ///
    /// ```
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let orders = coordinator.id_generator("orders")?.with_block(10)?;
    /// let (first, second) = (orders.next_id()?, orders.next_id()?);
    /// assert!(first < second);
    /// # coordinator.close() }
    /// ```
    IdGenerator
}

impl IdGenerator {
    /// From the next block by this handle on, it goes when nobody has used it for `time`. Validates,
    /// no I/O. As [`IdGenerator::with_time_to_idle`](crate::IdGenerator::with_time_to_idle), with its errors.
    pub fn with_time_to_idle(mut self, time: Duration) -> Result<Self> {
        self.recipe = self.recipe.with_time_to_idle(time)?;
        Ok(self)
    }

    /// Reserves so many ids at a time. As [`IdGenerator::with_block`](crate::IdGenerator::with_block).
    ///
    /// # Errors
    /// `InvalidArgument` naming `size`.
    pub fn with_block(self, size: u32) -> Result<Self> {
        Ok(Self { recipe: self.recipe.with_block(size)?, home: self.home })
    }

    forward! { IdGenerator:
        /// The next id.
        fn next_id() -> u64;
        /// Deletes it. Answers whether it was there.
        fn delete() -> bool;
    }

    keyed!();
}
