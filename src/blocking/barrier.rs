//! Barriers that members pass together.

use std::time::Duration;

use super::forward::{forward, keyed, recipe};
use super::guard::Guard;
use crate::Result;

recipe! {
    /// A barrier that as many members pass together as it has parties. As
    /// [`latchwork::Barrier`](crate::Barrier).
    ///
    /// ```
    /// use std::thread;
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let barrier = coordinator.barrier("round", 2)?;
    /// let other = thread::spawn({ let barrier = barrier.clone(); move || barrier.wait() });
    /// barrier.wait()?; // neither goes on alone
    /// other.join().expect("no panic")?;
    /// # coordinator.close() }
    /// ```
    Barrier
}

impl Barrier {
    forward! { Barrier:
        /// Waits until as many wait as the barrier has parties. It waits through outages; bound it by
        /// [`wait_within`](Self::wait_within).
        fn wait() -> ();
    }

    /// As [`wait`](Self::wait), for this long at most.
    ///
    /// # Errors
    /// `Timeout`: it is counted no more, unless it has passed already. Others as [`wait`](Self::wait).
    pub fn wait_within(&self, within: Duration) -> Result<()> {
        self.home.run_within("wait", self.key(), within, self.recipe.wait())
    }

    keyed!();
}

recipe! {
    /// A barrier that members enter together and leave together. As
    /// [`latchwork::DoubleBarrier`](crate::DoubleBarrier).
    ///
    /// ```
    /// use std::thread;
    /// use latchwork::blocking;
    ///
    /// # fn main() -> latchwork::Result<()> {
    /// # let coordinator = blocking::connect("memory://")?;
    /// let batch = coordinator.double_barrier("batch", 2)?;
    /// let work = || -> latchwork::Result<()> {
    ///     let inside = batch.enter()?; // both are here
    ///     inside.leave()               // both are done
    /// };
    /// thread::scope(|scope| {
    ///     let other = scope.spawn(work);
    ///     work()?;
    ///     other.join().expect("no panic")
    /// })?;
    /// # coordinator.close() }
    /// ```
    DoubleBarrier
}

impl DoubleBarrier {
    /// Waits until as many wait as the barrier has parties, and those who entered before have left. As
    /// [`DoubleBarrier::enter`](crate::DoubleBarrier::enter), with its errors, and `InAsyncCode`.
    pub fn enter(&self) -> Result<Inside> {
        Ok(Inside::new(self.home.run(self.recipe.enter())?, &self.home))
    }

    /// As [`enter`](Self::enter), for this long at most.
    ///
    /// # Errors
    /// `Timeout`: it is counted no more. Others as [`enter`](Self::enter).
    pub fn enter_within(&self, within: Duration) -> Result<Inside> {
        let inside = self.home.run_within("enter", self.key(), within, self.recipe.enter())?;
        Ok(Inside::new(inside, &self.home))
    }

    keyed!();
}

/// A member inside a double barrier. Dropped, or [released](Guard::release), it is out without waiting
/// for the others.
pub type Inside = Guard<crate::Inside>;

impl Inside {
    /// Leaves, and waits until all who entered with it have left or died. As
    /// [`Inside::leave`](crate::Inside::leave), with its errors, and `InAsyncCode`: it is out then too.
    pub fn leave(self) -> Result<()> {
        let Self { hold, home } = self;
        home.run(hold.leave())
    }

    /// As [`leave`](Self::leave), for this long at most.
    ///
    /// # Errors
    /// `Timeout` when others are inside then: this one is out. Others as [`leave`](Self::leave).
    pub fn leave_within(self, within: Duration) -> Result<()> {
        let Self { hold, home } = self;
        let key = hold.key().to_owned();
        home.run_within("leave", &key, within, hold.leave())
    }
}
